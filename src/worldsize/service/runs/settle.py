"""Writes down how runs have ended, once for all clients; and asks for the end of a run or an array."""

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
    """Write the result of a run of this user's own; nothing of another's run: a file of root's in another's directory
    would be one that its owner cannot read."""
    try:
        if is_own(paths):
            write(paths, result(plan, status))
    except OSError:
        return  # read-only for this user, or full: everybody who looks comes to the same conclusion


def replace_result(paths: RunPaths, plan: Plan, status: Status) -> None:
    """Write the end that this user's own run had after all, in place of one that was LOST."""
    record_result(paths, plan, status, lambda paths, end: write_json(paths.result, end))


def record_common_result(array_id: str, elements: Sequence[RunPaths], plan: Plan, status: Status) -> None:
    """The result of elements that ended alike before they began: one file, which tells the array's id, with a name in
    each of their directories. `plan`: of any of them.

    To make 500 files takes a disk longer than all else of a look at them, and a parallel file system far longer.
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
    """Return whether all have a result now; False where each needs a file of its own: no links here, or too many of
    it."""
    try:
        if not write_once(files[0], result(plan, status)):
            return False  # somebody else's, who may have seen another end
        for file in files[1:]:
            try:
                os.link(files[0], file)
            except FileExistsError:
                continue
    except OSError:
        return False
    return True


def request_end(paths: RunPaths, tell: Callable[[], None]) -> None:
    """Mark the run as cancelled, then `tell` whoever runs it. Where that fails, or is interrupted, the mark that this
    call made is removed: the run goes on, and its state says so. A compute that was told all the same says that the run
    was cancelled."""
    marked = False
    try:
        marked = write_once(paths.cancel, {"time": time.time(), "pid": os.getpid()})
    except OSError:
        pass  # a full disk: the agents will still be told, and say themselves that they were cancelled
    try:
        tell()
    except BaseException:
        if marked and os.path.exists(paths.cancel):
            os.unlink(paths.cancel)
        raise
