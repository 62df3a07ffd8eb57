"""The mark in a run's directory that names the process that prepares the run. It exists from the beginning of the
preparation until the run has been submitted to its compute."""

from __future__ import annotations

import os
import time

from worldsize.agent.posix import processes
from worldsize.common.atomic_files import read_file, try_unlink, write_text
from worldsize.plan.run_paths import RunPaths

_UNMARKED = 5.0
"""Seconds after which a directory without a mark is not being prepared. The mark is written within a millisecond after
the directory is made, unless the process is killed between the two."""


def mark_preparing(paths: RunPaths) -> None:
    """Mark the run as being prepared by this process. The mark is a symbolic link whose target is text and not a path:
    one system call creates it, wholly or not at all. Where links are impossible it is a file. Failures are ignored."""
    pid = os.getpid()
    mark = f"{pid}:{processes.start_time(pid)}:{os.uname().nodename}"
    try:
        os.symlink(mark, paths.preparing)
    except OSError:
        try:
            write_text(paths.preparing, mark)
        except OSError:
            pass  # nothing else of the run can be written either


def unmark_preparing(paths: RunPaths) -> None:
    try_unlink(paths.preparing)


def is_being_prepared(paths: RunPaths) -> bool | None:
    """Return whether the process that prepares the run in `paths` is still alive, from the mark in the run directory;
    None if this machine cannot know, for instance because the process is on another host."""
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
    """Return the seconds since an entry was last added to the run's directory; 0 if that cannot be read."""
    try:
        return time.time() - os.stat(paths.root).st_mtime
    except OSError:
        return 0.0


def _mark_path(paths: RunPaths) -> str:
    """Return the path of the mark that names the process preparing a run. Elements of an array are prepared together,
    and share the mark in the directory of the array."""
    from worldsize.plan.array import array_of

    place = array_of(paths)
    return RunPaths(place[0]).preparing if place else paths.preparing
