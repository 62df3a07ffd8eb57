"""The requeue of a run: its scheduler starts the same submission again, as its next attempt.

A run that has ended becomes one that waits again. The files that settled it are moved to the directory of the attempt
that they describe. Agents begin no attempt of a run that is settled or cancelled, so that these files must be moved
before the scheduler receives the request.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping

from worldsize.common.atomic_files import storage_error
from worldsize.common.named_tuple import cast
from worldsize.compute.capabilities import CanRequeue
from worldsize.errors import SubmitAgain, SubmitRejected, UsageError, WorldsizeError
from worldsize.plan.array import array_of
from worldsize.plan.plan import Plan
from worldsize.plan.run_paths import RunPaths
from worldsize.plan.secrets_file import (
    VARIABLES,
    masked_variables,
    read_secrets,
    remove_secrets,
    unmasked_variables,
    write_secrets,
)
from worldsize.service.runs.run import Run
from worldsize.state.records import RunState

_ENDED = (RunState.FAILED, RunState.CANCELLED, RunState.LOST)
_ON_ITS_WAY = (RunState.STARTING, RunState.RUNNING)


def requeue(run: Run) -> int:
    """Make a run's scheduler start the run again, as its next attempt. Return the number of that attempt. Raise
    UsageError, ConfigError, SubmitRejected, SubmitAgain, StorageError; in these cases the run is unchanged."""
    run.refuse_foreign("requeue")
    status = run.look()
    rerun = f"`worldsize rerun {run.id}` makes a new run of the same job and code"
    if status.state not in (*_ENDED, *_ON_ITS_WAY):
        hint = rerun if status.final else "it starts by itself, or `worldsize status` gives the reason"
        raise UsageError(f"{run.id} is {status.state}", None, hint)
    handle = run.native()
    if handle is None or "requeue" not in run.compute.capabilities:
        raise UsageError(f"the compute of {run.id} cannot put a run back into a queue", None, rerun)
    place = array_of(run.paths)
    if place and os.path.exists(RunPaths(place[0]).cancel):
        raise UsageError(f"the array of {run.id} was cancelled", None, rerun)
    seen = run.compute.observe([handle])[0]
    if seen.phase == "unknown":
        raise SubmitAgain(seen.message or "the compute does not report its state", f"run {run.id}", "try again")
    attempt = max(seen.restarts if seen.counted else 0, run.paths.attempt) + 1
    ask = cast(CanRequeue, run.compute).requeue
    try:
        renew_secrets(run.paths, run.plan, os.environ)
        if status.final:
            _put_back(run.paths, attempt, run.plan.umask, lambda: ask(handle, attempt))
        else:
            ask(handle, attempt)
            _make_attempt(run.paths, attempt, run.plan.umask)
    except (WorldsizeError, OSError) as error:
        if status.final:  # the run stays ended; its renewed secrets are removed
            remove_secrets(run.paths)
        if isinstance(error, OSError):
            raise storage_error(error, run.paths.root) from None
        if isinstance(error, SubmitRejected):
            raise SubmitRejected(error.what, error.where, rerun) from None
        raise
    return attempt


def renew_secrets(paths: RunPaths, plan: Plan, environ: Mapping[str, str]) -> None:
    """Write the secrets file of a run that had ended and will start again, with the values that its secret variables
    have in `environ`. Do nothing if the file still exists, or the run has no secrets. Raise UsageError if a variable is
    not set there, or if a secret that is no variable is lost. Raise OSError."""
    if not plan.hidden or read_secrets(paths) is not None:
        return
    rerun = f"`worldsize rerun {plan.run_id}` makes a new run, for which it can be set again"
    lost = ", ".join(key for key in plan.hidden if key not in VARIABLES)
    if lost:
        raise UsageError(f"a secret in its {lost} is no longer stored since it has ended", None, rerun)
    missing = [name for name in masked_variables(plan) if name not in environ]
    if missing:
        raise UsageError(f"{missing[0]} is not set here, and the run needs it", None, f"export {missing[0]}=…")
    write_secrets(paths, unmasked_variables(plan, environ))


def _put_back(paths: RunPaths, attempt: int, umask: int, ask: Callable[[], None]) -> None:
    """Make an ended run wait again: create the directory of `attempt`, move the run's result and cancellation into that
    of its last attempt, and call `ask` to request the requeue from the scheduler. If the scheduler refuses, restore
    everything and raise its error."""
    moved = [(paths.cancel, paths.attempt_dir + "/cancel.json"), (paths.result, paths.attempt_dir + "/result.json")]
    _make_directory(paths.attempt_dir, umask)
    _make_attempt(paths, attempt, umask)
    _move(moved)
    try:
        ask()
    except WorldsizeError:
        _move([(to, source) for source, to in moved])
        for directory in (RunPaths(paths.root, attempt).events_dir, RunPaths(paths.root, attempt).attempt_dir):
            os.rmdir(directory)
        raise
    if os.path.exists(paths.result):  # a client that looked before the requeue has settled the run again
        os.unlink(paths.result)


def _make_attempt(paths: RunPaths, attempt: int, umask: int) -> None:
    """Create the directories of a run's attempt, which make it the latest one for all readers and for agents, including
    those that never began the previous one."""
    later = RunPaths(paths.root, attempt)
    for directory in (later.attempt_dir, later.events_dir):
        _make_directory(directory, umask)


def _make_directory(path: str, umask: int) -> None:
    """Create a directory of a run with the run's `umask` instead of this process's, unless it exists: agents execute
    what is in it, so that no other user may be able to write there."""
    try:
        os.mkdir(path, 0o700)
    except FileExistsError:
        return
    os.chmod(path, 0o777 & ~umask)


def _move(pairs: list[tuple[str, str]]) -> None:
    for source, to in pairs:
        if os.path.exists(source):
            os.replace(source, to)
