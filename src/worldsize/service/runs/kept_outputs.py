"""Outputs that runs have left at their service, found by the paths in run directories that they are fetched to."""

from __future__ import annotations

import os
from collections.abc import Mapping

from worldsize.compute.base import OUTPUTS
from worldsize.plan.run_paths import RunPaths
from worldsize.service.ownership import is_own
from worldsize.service.runs.run import Run

_OUTPUTS = f"{os.sep}outputs"


def run_that_keeps(path: str, environ: Mapping[str, str]) -> Run | None:
    """Return the run of this user whose output data for the local `path` is kept by the service that executed the run.
    `path` is `run.outputs.path`, the path of a named output, or a path below one. None for all other paths."""
    above = path
    while _OUTPUTS in above:
        above, name = os.path.split(above)
        if name == "outputs" and os.path.exists(RunPaths(above).handle):
            run = Run(RunPaths(above), environ)
            return run if is_own(run.paths) and run.offers(OUTPUTS) else None
    return None


def is_fetched(path: str) -> bool:
    """Return whether the outputs at `path` are here: `path` is a file, or a directory that contains a file at some
    depth. An empty directory does not count, since output directories are made before a run starts."""
    return os.path.isfile(path) or any(names for _, _, names in os.walk(path))
