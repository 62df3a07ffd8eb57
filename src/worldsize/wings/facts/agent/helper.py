"""The agent's side of the process that collects facts about a node (`program.py`).

Standard library only: travels inside agent.pyz (Python >= 3.8), and is loaded once ranks have run for a moment.
"""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Mapping, Sequence

from worldsize.agent.launchers.rank_process import Process
from worldsize.agent.posix import processes
from worldsize.plan.plan import Plan
from worldsize.plan.run_paths import RunPaths
from worldsize.wings.facts.agent.command_words import program_words

_PROGRAM = "import sys; sys.path.insert(0, sys.argv[1]); from worldsize.wings.facts.agent.program import main; main()"
_ORDER, _VISIBLE = "WORLDSIZE_FACTS_ORDER", "CUDA_VISIBLE_DEVICES"
_PASSED = frozenset((
    "PATH", "PYTHONPATH", "PYTHONUSERBASE", "PYTHONNOUSERSITE", "HOME", "LD_LIBRARY_PATH", "OPAL_PREFIX", "I_MPI_ROOT",
))  # fmt: skip
"""Variables of a rank that decide which programs and packages it finds."""


def start_helper(
    plan: Plan, paths: RunPaths, nodes: Sequence[int], rank: Process, environ: Mapping[str, str], program: str = ""
) -> int:
    """Start the process that collects the facts about this machine and writes them to `paths.node_facts` of the first
    of `nodes`. Return its process ID. `rank` is a process of these nodes; its environment is that of the ranks. Raise
    OSError."""
    order = {
        "path": paths.node_facts(nodes[0]),
        "nodes": list(nodes),
        "agent": os.getpid(),
        "argv": program_words(plan.argv),  # any process of this user can read the helper's variables
        "python": plan.python,
        "directory": paths.code,
        "variables": {name: value for name, value in rank.environment.items() if name in _PASSED},
        "gpus": plan.gpus != 0 and plan.rehearsal is None,
    }
    package = os.path.abspath(__file__)
    for _ in range(5):  # agent, facts, wings, worldsize, and its container: a folder, or agent.pyz
        package = os.path.dirname(package)
    program = program or sys.executable
    argv = (program, "-I", "-S", "-c", _PROGRAM, package)
    return processes.spawn_helper(program, argv, {**_visible(plan, environ), _ORDER: json.dumps(order)}, os.devnull)


def _visible(plan: Plan, environ: Mapping[str, str]) -> Mapping[str, str]:
    """Return the agent's environment variables, in which CUDA_VISIBLE_DEVICES names the node's GPUs. If it names none
    and each rank gets one of the first GPUs, set it to these."""
    if plan.gpus and plan.visible_devices and _VISIBLE not in environ:
        return {**environ, _VISIBLE: ",".join(map(str, range(plan.gpus)))}
    return environ
