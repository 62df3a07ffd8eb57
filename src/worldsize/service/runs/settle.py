"""Functions that record how runs have ended, once for all clients, and that request the end of a run or an array."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Sequence

from worldsize.common.atomic_files import write_json, write_once
from worldsize.common.named_tuple import Any
from worldsize.plan.plan import Plan
from worldsize.plan.run_paths import RunPaths
from worldsize.plan.secrets_file import remove_secrets, write_result
from worldsize.service.ownership import is_own
from worldsize.state.records import Status
from worldsize.state.result import result


def record_result(
    paths: RunPaths, plan: Plan, status: Status, write: Callable[[RunPaths, Any], object] = write_result
) -> None:
    """Write the final `status` of a run to its result.json, with `write`. Nothing is written for another user's run: a
    file of root in another user's directory could not be read by its owner. An OSError is ignored."""
    try:
        if is_own(paths):
            write(paths, result(plan, status))
    except OSError:
        return  # read-only for this user, or a full disk: every client computes the same result


def replace_result(paths: RunPaths, plan: Plan, status: Status) -> None:
    """Overwrite the result.json of a run that was recorded as LOST with the end that it actually had, which is
    `status`. Another user's run is left unchanged."""
    record_result(paths, plan, status, lambda paths, end: write_json(paths.result, end))


def record_common_result(array_id: str, elements: Sequence[RunPaths], plan: Plan, status: Status) -> None:
    """Write the result.json of array elements that ended alike before they began: one file, which contains the array's
    id, hard-linked into each of their directories. `plan` is the plan of any of them. Where links are not possible,
    each element gets a file of its own.

    Creating 500 files takes a disk longer than all other steps of a look at them, and a parallel file system far
    longer.
    """
    elements = [each for each in elements if is_own(each)]
    for each in elements if plan.hidden else ():
        remove_secrets(each)
    if len(elements) > 1 and _link_common_result(
        [each.result for each in elements], plan._replace(run_id=array_id), status
    ):
        return
    for each in elements:
        record_result(each, plan._replace(run_id=each.run_id), status)


def _link_common_result(files: Sequence[str], plan: Plan, status: Status) -> bool:
    """Write the result of array elements to the first of `files` and hard-link all others to it; return whether all of
    them exist now. False if each element needs its own file: the first file existed already, links are not supported
    here, or there are too many links to one file."""
    try:
        if not write_once(files[0], result(plan, status)):
            return False  # another client's file, which may contain another end
        for file in files[1:]:
            try:
                os.link(files[0], file)
            except FileExistsError:
                continue
    except OSError:
        return False
    return True


def request_end(paths: RunPaths, tell: Callable[[], None]) -> None:
    """Mark the run as cancelled by writing its cancel.json, then call `tell`, which requests the end at the run's
    compute. If the call fails or is interrupted, a mark that was written here is removed: the run continues, and its
    state shows that. If the compute was notified all the same, it reports that the run was cancelled."""
    marked = False
    try:
        marked = write_once(paths.cancel, {"time": time.time(), "pid": os.getpid()})
    except OSError:
        pass  # a full disk: the agents are still notified, and record themselves that they were cancelled
    try:
        tell()
    except BaseException:
        if marked and os.path.exists(paths.cancel):
            os.unlink(paths.cancel)
        raise
