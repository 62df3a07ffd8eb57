"""Opening of the run, or the array of runs, in a directory."""

from __future__ import annotations

from collections.abc import Mapping

from worldsize.plan.run_paths import RunPaths
from worldsize.service.runs.run import Run
from worldsize.store.find import is_array

TYPE_CHECKING = False
if TYPE_CHECKING:
    from worldsize.service.runs.array import RunArray


def open_runs(paths: RunPaths, environ: Mapping[str, str]) -> Run | RunArray:
    """Return a RunArray if the run directory in `paths` is that of a completely prepared array, else a Run."""
    if not is_array(paths):
        return Run(paths, environ)
    from worldsize.service.runs.array import RunArray

    return RunArray(paths, environ)
