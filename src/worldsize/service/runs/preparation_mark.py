"""Who is preparing a run: a mark in its directory, from its first moment until the compute has it."""

from __future__ import annotations

import os
import time

from worldsize.agent.posix import processes
from worldsize.common.atomic_files import read_file, try_unlink, write_text
from worldsize.plan.run_paths import RunPaths

_UNMARKED = 5.0
"""Seconds; the mark follows the directory within a millisecond, unless its maker is killed between the two."""


def mark_preparing(paths: RunPaths) -> None:
    """Mark the run as being prepared by this process. The mark is a link that leads nowhere: whole or not there, and
    one call to the system; a file where there are no links."""
    pid = os.getpid()
    mark = f"{pid}:{processes.start_time(pid)}:{os.uname().nodename}"
    try:
        os.symlink(mark, paths.preparing)
    except OSError:
        try:
            write_text(paths.preparing, mark)
        except OSError:
            pass  # nor will anything else of the run be written


def unmark_preparing(paths: RunPaths) -> None:
    try_unlink(paths.preparing)


def is_being_prepared(paths: RunPaths) -> bool | None:
    """Return whether the process that prepares the run still lives; None where nobody here can know."""
    try:
        path = _mark_path(paths)
        mark = os.readlink(path) if os.path.islink(path) else read_file(path).decode("utf-8")
        pid, started, host = mark.split(":", 2)
        number, since = int(pid), int(started)
    except FileNotFoundError:
        return False if _seconds_since_change(paths) > _UNMARKED else None
    except (OSError, ValueError):
        return None
    return None if host != os.uname().nodename else processes.start_time(number) == since


def _seconds_since_change(paths: RunPaths) -> float:
    """Seconds since something was last added to the run."""
    try:
        return time.time() - os.stat(paths.root).st_mtime
    except OSError:
        return 0.0


def _mark_path(paths: RunPaths) -> str:
    """Return the path of the mark. Elements are prepared with their array, and have its mark."""
    from worldsize.plan.array import array_of

    place = array_of(paths)
    return RunPaths(place[0]).preparing if place else paths.preparing
