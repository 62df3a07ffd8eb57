"""Where ranks start, and what their relative paths are relative to.

Standard library only: travels inside agent.pyz (Python >= 3.8).
"""

from __future__ import annotations

import os

from worldsize.plan.run_paths import RunPaths
from worldsize.wings.checks.agent.node_context import NodeContext


def rank_directory(context: NodeContext) -> str:
    """The run's code, or the run's directory where there is none."""
    code = RunPaths(context.run_dir).code
    return code if os.path.isdir(code) else context.run_dir
