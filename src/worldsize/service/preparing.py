"""Who is preparing a run: a mark in its directory, from its first moment until the compute has it."""

from __future__ import annotations

import os

from worldsize.agent import processes
from worldsize.plan.paths import RunPaths


def mark_preparing(paths: RunPaths) -> None:
    """This process prepares the run. A link that leads nowhere: whole or not there, and one call to the system."""
    pid = os.getpid()
    try:
        os.symlink("%d:%s:%s" % (pid, processes.start_time(pid), os.uname().nodename), paths.preparing)
    except OSError:
        pass  # without it an interrupted run is known by its age


def unmark_preparing(paths: RunPaths) -> None:
    try:
        os.unlink(paths.preparing)
    except OSError:
        pass


def is_being_prepared(paths: RunPaths) -> bool | None:
    """Whether the process that prepares the run still lives; None where nobody here can know."""
    try:
        pid, started, host = os.readlink(paths.preparing).split(":", 2)
    except (OSError, ValueError):
        return None
    if host != os.uname().nodename or not (pid.isdigit() and started.isdigit()):
        return None
    return processes.start_time(int(pid)) == int(started)
