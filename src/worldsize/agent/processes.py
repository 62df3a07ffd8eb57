"""Process trees on POSIX: start a rank, signal its group, find and end what it left behind.

Every rank leads a session of its own. The agent (and a local run's conductor) is a child subreaper, so that a
process that leaves its group or session still becomes our child when its parent ends, and can be found and ended.
"""

from __future__ import annotations

import ctypes
import os
import signal
from contextlib import contextmanager
from typing import Iterator, Mapping, Sequence

_PR_SET_CHILD_SUBREAPER = 36


def become_subreaper() -> None:
    """Orphaned descendants become our children from now on (Linux; elsewhere nothing)."""
    prctl = getattr(ctypes.CDLL(None), "prctl", None)
    if prctl is not None:
        prctl(_PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)


def find_program(name: str, environment: Mapping[str, str]) -> str | None:
    """`name` as a rank with this environment would find it, or None."""
    if os.sep in name:
        return name if os.access(name, os.X_OK) else None
    for directory in os.get_exec_path(dict(environment)):
        path = os.path.join(directory, name)
        if os.path.isfile(path) and os.access(path, os.X_OK):
            return path
    return None


def spawn(program: str, argv: Sequence[str], environment: Mapping[str, str], log: str) -> int:
    """Start `program` in a session of its own, its stdout and stderr straight into `log`; its pid.

    No pipe stands between a rank and its file: nothing that we do can block it, and its last words arrive.
    Raises OSError when the program or the log cannot be opened.
    """
    return os.posix_spawn(
        program,
        argv,
        environment,
        file_actions=[
            (os.POSIX_SPAWN_OPEN, 0, os.devnull, os.O_RDONLY, 0),
            (os.POSIX_SPAWN_OPEN, 1, log, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o666),
            (os.POSIX_SPAWN_DUP2, 1, 2),
        ],
        setsid=True,
        setsigmask=[],
        setsigdef=[signal.SIGPIPE, signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGCHLD, signal.SIGQUIT],
    )


@contextmanager
def bound_to(cpus: Sequence[int]) -> Iterator[None]:
    """What is started inside runs on `cpus` only; on all of ours when empty."""
    if not cpus:
        yield
        return
    before = os.sched_getaffinity(0)
    os.sched_setaffinity(0, cpus)
    try:
        yield
    finally:
        os.sched_setaffinity(0, before)


def exit_code(status: int) -> int:
    """A wait status as shells say it: the code, or 128+N for signal N."""
    return 128 + os.WTERMSIG(status) if os.WIFSIGNALED(status) else os.WEXITSTATUS(status)


def reap() -> Iterator[tuple[int, int]]:
    """Every child that has ended by now: (pid, exit code)."""
    while True:
        try:
            pid, status = os.waitpid(-1, os.WNOHANG)
        except ChildProcessError:
            return
        if pid == 0:
            return
        yield pid, exit_code(status)


def signal_group(leader: int, number: int) -> None:
    """Signal the group that `leader` leads, if any of it is left; a stopped one is continued, so that TERM is heard."""
    for each in (number, signal.SIGCONT):
        try:
            os.killpg(leader, each)
        except (ProcessLookupError, PermissionError):
            return


def signal_process(pid: int, number: int) -> None:
    try:
        os.kill(pid, number)
    except (ProcessLookupError, PermissionError):
        pass


def children() -> list[int]:
    """Our living children, adopted orphans included; zombies count until they are reaped."""
    own = os.getpid()
    try:
        with open("/proc/%d/task/%d/children" % (own, own)) as file:
            return [int(pid) for pid in file.read().split()]
    except OSError:
        return [pid for pid, parent in _parents() if parent == own]


def descendants() -> list[int]:
    """Everything below us, in no order."""
    below: dict[int, list[int]] = {}
    for pid, parent in _parents():
        below.setdefault(parent, []).append(pid)
    found: list[int] = []
    front = [os.getpid()]
    while front:
        front = [child for parent in front for child in below.get(parent, ())]
        found.extend(front)
    return found


def _parents() -> Iterator[tuple[int, int]]:
    for name in os.listdir("/proc"):
        if name.isdigit():
            identity = stat_fields(int(name))
            if identity is not None:
                yield int(name), int(identity[1])


def stat_fields(pid: int) -> list[bytes] | None:
    """Fields of /proc/PID/stat after the command: [state, ppid, pgrp, …]; None for no such process."""
    try:
        with open("/proc/%d/stat" % pid, "rb") as file:
            return file.read().rpartition(b") ")[2].split()
    except OSError:
        return None


def start_time(pid: int) -> int | None:
    """When a living process started, in clock ticks since boot: with its pid, an identity. None for a dead one."""
    fields = stat_fields(pid)
    return None if fields is None or fields[0] in b"ZX" else int(fields[19])
