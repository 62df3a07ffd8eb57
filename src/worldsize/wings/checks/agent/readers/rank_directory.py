"""The directory in which ranks start, and the Python that they execute.

Standard library only: travels inside agent.pyz (Python >= 3.8).
"""

from __future__ import annotations

import os

from worldsize.agent.posix.processes import find_program
from worldsize.plan.run_paths import RunPaths
from worldsize.wings.checks.agent.node_context import NodeContext


def rank_directory(context: NodeContext) -> str:
    """Return the directory in which ranks start: the directory of the run's code, or the run's directory if there is no
    code directory."""
    code = RunPaths(context.run_dir).code
    return code if os.path.isdir(code) else context.run_dir


def rank_python(context: NodeContext) -> str:
    """Return the path of the Python that ranks execute: the one that the job names, else `python`. Raise OSError if it
    does not exist."""
    program = str(context.asked.get("python") or "python")
    if os.sep in program:
        program = os.path.join(rank_directory(context), program)
    return find_program(program, context.environ)
