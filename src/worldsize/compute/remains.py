"""What is left of a local run on this machine: its agents by their session, all else by its mark."""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Iterator

from worldsize.agent import processes

_PATIENCE = 2.0
_SESSION, _STARTED = 3, 19
"""Where they stand among the fields of `processes.stat_fields`."""
_FORKED_WITHIN = 60.0


def agents(conductor: int, started: int) -> list[int]:
    """What lives of the session that the conductor, which started at `started` clock ticks, has opened: its agents.

    They are forked in its first moments, so that nobody who has got the same number since is taken for one of them.
    """
    if processes.start_time(conductor) not in (None, started):
        return []
    last = started + _FORKED_WITHIN * os.sysconf("SC_CLK_TCK")
    found = []
    for pid in _pids():
        fields = processes.stat_fields(pid)
        if fields is None or fields[0] in b"ZX" or int(fields[_SESSION]) != conductor:
            continue
        if started <= int(fields[_STARTED]) <= last:
            found.append(pid)
    return found


def marked(run_id: str) -> list[int]:
    """The ranks and whatever they have started, in any session: who carries the run's id in its environment."""
    mark = b"WORLDSIZE_RUN_ID=%s\0" % run_id.encode()
    return [pid for pid in _pids() if mark in _environment(pid)]


def end_remains(run_id: str, conductor: int | None = None, started: int | None = None) -> int:
    """KILL to all that is left, until nothing is (2 s at most); how many processes that were."""
    ended: set[int] = set()
    deadline = time.monotonic() + _PATIENCE
    while True:
        left = marked(run_id)
        if conductor is not None and started is not None:
            left += agents(conductor, started)
        if not left or time.monotonic() > deadline:
            return len(ended)
        for pid in left:
            processes.signal_process(pid, signal.SIGKILL)
        ended.update(left)
        time.sleep(0.005)


def _pids() -> Iterator[int]:
    own = os.getpid()
    return (int(name) for name in os.listdir("/proc") if name.isdigit() and int(name) != own)


def _environment(pid: int) -> bytes:
    try:
        with open("/proc/%d/environ" % pid, "rb") as file:
            return file.read() + b"\0"
    except OSError:
        return b""
