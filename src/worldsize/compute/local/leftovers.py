"""The remains of a local run on this machine: its agents are found by their session, all other processes by their mark.
Only processes that work in the run's own directory count, because any user can write down a handle or a run's id."""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Callable, Iterator

from worldsize.agent.posix import processes
from worldsize.compute.base import Handle
from worldsize.plan.handle import is_inside
from worldsize.plan.run_paths import RunPaths
from worldsize.trust.owners import is_own_process

_PATIENCE = 2.0
_PARENT, _SESSION, _STARTED = 1, 3, 19
"""Indices among the fields of `processes.stat_fields`."""
_FORKED_WITHIN = 60.0
_child_pids: set[int] = set()


def living_agents(conductor: int, started: int, run_dir: str) -> list[int]:
    """Return the pids of the living agents of a local run: the processes in the session of its conductor, which started
    at `started` clock ticks, that write to a file in `run_dir`.

    The agents are forked in the conductor's first moments. A process that has got the same number since is therefore
    not taken for one of them.
    """
    if processes.start_time(conductor) not in (None, started):
        return []
    last = started + _FORKED_WITHIN * os.sysconf("SC_CLK_TCK")
    found = []
    for pid in _pids():
        fields = processes.stat_fields(pid)
        if fields is None or fields[0] in b"ZX" or int(fields[_SESSION]) != conductor:
            continue
        if started <= int(fields[_STARTED]) <= last and writes_below(pid, run_dir):
            found.append(pid)
    return found


def has_begun(run_dir: str) -> bool:
    """Return whether any agent of the run in `run_dir` has recorded an event or an exit record."""
    paths = RunPaths(run_dir)
    try:
        return any(os.listdir(directory) for directory in (paths.events_dir, paths.exit_dir))
    except OSError:
        return False


def find_marked_processes(run_id: str, run_dir: str | None) -> list[int]:
    """Return the pids of the run's ranks and of all processes that they have started, in any session: those with the
    run's id and directory in their environment. None as `run_dir` means any directory, for a run that only the user has
    named."""
    return _processes_with_mark(b"WORLDSIZE_RUN_ID=%s\0" % run_id.encode(), run_dir)


def kill_leftovers(run_id: str, run_dir: str | None, conductor: int | None = None, started: int | None = None) -> int:
    """Send KILL to all processes that are left of a local run, its ranks and, if `conductor` is given, its agents,
    until there are none (2 s at most). Return how many processes there were."""

    def left() -> list[int]:
        found = find_marked_processes(run_id, run_dir)
        if run_dir is not None and conductor is not None and started is not None:
            found += living_agents(conductor, started, run_dir)
        return found

    return _kill_until_none(left)


def kill_element_leftovers(array_id: str, root: str) -> int:
    """Send KILL to the ranks of all elements of the array in `root`, until there are none (2 s at most). Return how
    many processes there were."""
    return _kill_until_none(lambda: _processes_with_mark(b"WORLDSIZE_RUN_ID=%s_" % array_id.encode(), root))


def _kill_until_none(find: Callable[[], list[int]]) -> int:
    """Send KILL to the processes whose pids `find` returns, until it returns none or 2 s are over. Return how many
    processes there were. If any were found, search once more, because a process in the middle of an exec shows no mark.
    """
    ended: set[int] = set()
    deadline = time.monotonic() + _PATIENCE
    empty = 0
    while True:
        left = find()
        empty = 0 if left else empty + 1
        if empty > bool(ended) or time.monotonic() > deadline:
            return len(ended)
        for pid in left:
            processes.signal_process(pid, signal.SIGKILL)
        ended.update(left)
        time.sleep(0.005)


def _processes_with_mark(mark: bytes, directory: str | None) -> list[int]:
    """Return the pids of this user's processes with `mark`, an entry with a run's id or its beginning, in their
    environment, whose WORLDSIZE_RUN_DIR is `directory`, or is in it; None means any directory."""
    found = {pid: entries for pid in _pids() if mark in (entries := _environment(pid))}
    if directory is None:
        return list(found)
    return [pid for pid, entries in found.items() if any(is_inside(each, directory) for each in _run_dirs(entries))]


def _run_dirs(entries: bytes) -> list[str]:
    name = b"WORLDSIZE_RUN_DIR="
    return [os.fsdecode(each[len(name) :]) for each in entries.split(b"\0") if each.startswith(name)]


def _pids() -> Iterator[int]:
    own = os.getpid()
    return (int(name) for name in os.listdir("/proc") if name.isdigit() and int(name) != own)


def _environment(pid: int) -> bytes:
    """Return the environment of the process `pid` as bytes, if this user owns the process; nothing for other processes,
    because any user may start one with a run's id."""
    try:
        with open(f"/proc/{pid}/environ", "rb") as file:
            return file.read() + b"\0" if is_own_process(pid) else b""
    except OSError:
        return b""


def is_alive(handle: Handle) -> bool:
    """Return whether the process that a local run's handle names still runs, by its pid and start time. A process that
    was started here is reaped if it does not."""
    pid = handle["pid"]
    if pid in _child_pids:
        try:
            _child_pids.difference_update(os.waitpid(pid, os.WNOHANG)[:1])
        except ChildProcessError:
            _child_pids.discard(pid)
    return handle["start_time"] is not None and processes.start_time(pid) == handle["start_time"]


def remember_child(pid: int) -> None:
    """Record the pid of a conductor or queue that this process has started for a run, so that `is_alive` reaps it,
    because no other process waits for it. A handle alone is not trusted."""
    _child_pids.add(pid)


def may_be_signalled(handle: Handle) -> bool:
    """Return whether the process that a local run's handle names still runs, and works for the run, or for its array,
    so that a signal cannot reach another process. The file that it writes to shows this, or that this process has
    forked it, perhaps a moment ago."""
    if not is_alive(handle):
        return False
    return _is_child(handle["pid"]) or writes_below(handle["pid"], handle.get("queue", handle["run_dir"]))


def _is_child(pid: int) -> bool:
    fields = processes.stat_fields(pid)
    return fields is not None and int(fields[_PARENT]) == os.getpid()


def writes_below(pid: int, directory: str) -> bool:
    """Return whether the standard output of the process `pid` goes to a file in the directory, as that of a conductor,
    an agent and a queue does; False if it cannot be determined."""
    try:
        return is_inside(os.readlink(f"/proc/{pid}/fd/1"), directory)
    except OSError:
        return False
