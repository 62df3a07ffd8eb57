"""A run's handle: the name of the run's job in its compute, from a file in the run's directory.

That file may come from another user: a run's directory can be copied, or extracted from an archive. So a handle counts
only in the directory of the run that it names. Its `run_dir` is always the directory that contains it, regardless of
its content, since a process that is signalled must work there.

Standard library only: travels inside agent.pyz (Python >= 3.8).
"""

from __future__ import annotations

import os
import re

from worldsize.common.json_values import read_record
from worldsize.common.named_tuple import Any
from worldsize.plan.array import array_of, element_root, handles_file
from worldsize.plan.run_paths import RunPaths

_JOB = r"[0-9]+(_[0-9]+)?"
_KINDS = {"type": str, "host": str, "run_id": str, "pid": int, "start_time": int, "queue": str}


def read_handle(paths: RunPaths) -> Any:
    """Return the handle of the run in `paths`, which names its job in the compute (such as the Slurm job id), from the
    run's own file, else from that of its array. None if it has none (yet). Raise DamagedRun if a file contains
    something else. Raise OSError."""
    own = read_own_handle(paths)
    place = array_of(paths) if own is None else None
    if place is None:
        return own
    return read_record(handles_file(place[0]), lambda given: handle_of(paths, given[place[1]]))


def read_own_handle(paths: RunPaths) -> Any:
    """Return the handle in the run's own `handle.json`, which names the run's job in its compute; None if there is no
    such file. Raise DamagedRun if it contains something else. Raise OSError."""
    return read_record(paths.handle, lambda value: handle_of(paths, value))


def read_handles(root: str, elements: int) -> list[Any] | None:
    """Return the handles of all `elements` elements of the array in the directory `root`, in their order; each names an
    element's job in the compute. None before the array was submitted. Raise DamagedRun if the file contains something
    else. Raise OSError."""

    def handles(given: Any) -> list[Any]:
        if not isinstance(given, list) or len(given) != elements:
            raise ValueError(f"it does not contain the handles of {elements} elements")
        return [handle_of(RunPaths(element_root(root, element)), each) for element, each in enumerate(given)]

    return read_record(handles_file(root), handles)


def handle_of(paths: RunPaths, value: Any) -> Any:
    """Check that `value`, read from a file, is a handle that a compute can have written about the run in `paths`, and
    return it with the run's directory as its `run_dir`. Raise ValueError if it is not."""
    if not isinstance(value, dict) or not isinstance(value.get("type"), str):
        raise ValueError("it lacks the compute's name for the run")
    for name, kind in _KINDS.items():
        if value.get(name) is not None and type(value[name]) is not kind:
            raise ValueError(f"{name} is {value[name]!r:.60}, which no compute uses")
    if value.get("pid") is not None and value["pid"] < 1:
        raise ValueError("pid is {}, which is not a process".format(value["pid"]))
    if "job" in value and not re.fullmatch(_JOB, str(value["job"])):
        raise ValueError("job is {!r:.60}, which is not a number of a job".format(value["job"]))
    if value.get("run_id", paths.run_id) != paths.run_id:
        raise ValueError(f"it is the handle of another run, {value['run_id']!s:.60}")
    handle = {**value, "run_dir": paths.root}
    if "queue" in value:
        handle["queue"] = _queue(paths)
    return handle


def _queue(paths: RunPaths) -> str:
    """Return the directory whose queue must start the run in `paths`: that of its array, or the run's own."""
    place = array_of(paths)
    return place[0] if place else paths.root


def is_inside(path: str, directory: str) -> bool:
    """Return whether `path` is the directory, or is inside it, after all links in both are resolved."""
    path, directory = os.path.realpath(path), os.path.realpath(directory)
    return path == directory or path.startswith(directory + os.sep)
