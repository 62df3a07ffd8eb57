"""The choice of the attempt that an agent begins, for schedulers that start a run again and do not report how often. An
agent refuses an attempt whose directories other users may have prepared.

Standard library only: travels inside agent.pyz (Python >= 3.8).
"""

from __future__ import annotations

import os
import stat
import time

from worldsize.common.numbers import parse_digits
from worldsize.errors import RunFailed, UsageError
from worldsize.plan.array import is_cancelled
from worldsize.plan.plan import Plan
from worldsize.plan.run_paths import RunPaths, latest_attempt
from worldsize.state.exit_records import read_exit

_OTHERS_WRITE = stat.S_IWGRP | stat.S_IWOTH
_OVER = 60.0
"""Seconds after the end of the head's agent within which another node may still begin the same attempt."""


def choose_attempt(plan: Plan, paths: RunPaths, node_rank: int, least: str) -> tuple[Plan, RunPaths]:
    """Choose the number of the attempt that this node's agent begins, and return the plan and the paths of that
    attempt. It is the first attempt that this node has not begun and that is not over, starting from the latest
    attempt, or from `least` if that is a greater number.

    Raise RunFailed if the run has ended, because it is not started again.
    """
    attempt = max(parse_digits(least) or 0, latest_attempt(paths).attempt)
    while _was_begun(RunPaths(paths.root, attempt), node_rank):
        attempt += 1
    before = read_exit(RunPaths(paths.root, attempt - 1), 0) if attempt else None
    succeeded = before is not None and before.code == 0
    if succeeded or os.path.exists(paths.result) or is_cancelled(paths):
        ended = RunFailed(f"{paths.run_id} has ended, and is not started again")
        ended.exit_code = 0 if succeeded else 1
        raise ended
    return plan._replace(attempt=attempt), RunPaths(paths.root, attempt)


def _was_begun(paths: RunPaths, node_rank: int) -> bool:
    """Return whether the agent of node `node_rank` has begun the attempt of `paths`, or the attempt is over because its
    head's agent has ended some time ago."""
    if os.path.exists(paths.events(node_rank)) or os.path.exists(paths.exit_record(node_rank)):
        return True
    try:
        return time.time() - os.stat(paths.exit_record(0)).st_mtime > _OVER
    except OSError:  # the head's agent has not ended
        return False


def require_own_attempt(paths: RunPaths) -> None:
    """Check that the directories of the attempt belong to the owner of the run, to this user or to root. Raise
    UsageError if one does not, or if other users may write to it and not to the run's directory. The files in these
    directories determine which processes this agent connects to, and what it starts."""
    run = os.lstat(paths.root)
    for path in (paths.attempt_dir, paths.events_dir, paths.logs_dir, paths.exit_dir, paths.errors_dir):
        status = os.lstat(path)
        if status.st_uid not in (run.st_uid, os.geteuid(), 0) or not stat.S_ISDIR(status.st_mode):
            raise UsageError("it belongs to another user, and the run does not", path)
        if status.st_mode & _OTHERS_WRITE & ~run.st_mode:
            raise UsageError("other users may write to it, but not to the run's directory", path)
