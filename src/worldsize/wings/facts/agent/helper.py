"""The agent's side of the process that finds out what a node is made of (`program.py`).

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
"""Of a rank's variables, those that decide which programs and packages it finds."""


def start_helper(
    plan: Plan, paths: RunPaths, nodes: Sequence[int], rank: Process, environ: Mapping[str, str], program: str = ""
) -> int:
    """Start the process, which writes `paths.node_facts` of the first of these nodes; return its pid. `rank`: a
    process of theirs, whose environment is the ranks'. Raises OSError."""
    order = {
        "path": paths.node_facts(nodes[0]),
        "nodes": list(nodes),
        "agent": os.getpid(),
        "argv": program_words(plan.argv),  # any process of this user's can read what it is told by a variable
        "python": plan.python,
        "directory": paths.code,
        "variables": {name: value for name, value in rank.environment.items() if name in _PASSED},
        "gpus": plan.gpus != 0 and plan.rehearsal is None,
    }
    package = os.path.abspath(__file__)
    for _ in range(5):  # agent, facts, wings, worldsize, and what holds that: a folder, or agent.pyz
        package = os.path.dirname(package)
    program = program or sys.executable
    argv = (program, "-I", "-S", "-c", _PROGRAM, package)
    return processes.spawn_helper(program, argv, {**_visible(plan, environ), _ORDER: json.dumps(order)}, os.devnull)


def _visible(plan: Plan, environ: Mapping[str, str]) -> Mapping[str, str]:
    """Return the agent's environment, which names the node's GPUs. Where it names none and each rank gets one of the
    first, these are the ones."""
    if plan.gpus and plan.visible_devices and _VISIBLE not in environ:
        return {**environ, _VISIBLE: ",".join(map(str, range(plan.gpus)))}
    return environ
