"""What runs have left at their service, by the places in run directories that it is fetched to."""

from __future__ import annotations

import os
from collections.abc import Mapping

from worldsize.compute.base import OUTPUTS
from worldsize.plan.run_paths import RunPaths
from worldsize.service.ownership import is_own
from worldsize.service.runs.run import Run

_OUTPUTS = f"{os.sep}outputs"


def run_that_keeps(path: str, environ: Mapping[str, str]) -> Run | None:
    """Return the run of this user's own at whose service lies what a path means: `run.outputs.path`, that of a named
    output, or one below. None for all other paths."""
    above = path
    while _OUTPUTS in above:
        above, name = os.path.split(above)
        if name == "outputs" and os.path.exists(RunPaths(above).handle):
            run = Run(RunPaths(above), environ)
            return run if is_own(run.paths) and run.offers(OUTPUTS) else None
    return None


def is_fetched(path: str) -> bool:
    """Return whether there is a file, or a directory with one below it: directories are made before a run starts."""
    return os.path.isfile(path) or any(names for _, _, names in os.walk(path))
