"""What processes have used so far, by files of /proc that make no reader wait, whatever state a process is in: not
`cmdline`, `environ` or `smaps`.

Standard library only: travels inside agent.pyz (Python >= 3.8).
"""

from __future__ import annotations

import os
from collections.abc import Iterable

from worldsize.common.named_tuple import NamedTuple

_PAGE = os.sysconf("SC_PAGE_SIZE")
_STATE, _PARENT, _SESSION, _CPU, _START = 0, 1, 3, slice(11, 15), 19
"""Where these stand among the fields of `stat` after the command, proc(5). The times are utime, stime, and those of
ended children that were waited for."""


class ProcessUse(NamedTuple):
    """One process, with the children that it has waited for. ticks: of CPU; resident, shared: bytes, `shared` is the
    part of files and shared memory; read, written: bytes, None where the process lets nobody know."""

    state: str
    parent: int
    session: int
    started: int
    ticks: int
    resident: int
    shared: int
    read: int | None
    written: int | None


class TreeUse(NamedTuple):
    """Several processes together."""

    ticks: int
    memory: int
    read: int | None
    written: int | None


def read_process(pid: int, proc: str = "/proc") -> ProcessUse | None:
    """What a process has used; None for one that has ended, and where it cannot be read."""
    fields = _read(f"{proc}/{pid}/stat").rpartition(b") ")[2].split()
    pages = _read(f"{proc}/{pid}/statm").split()
    try:
        ticks = sum(map(int, fields[_CPU]))
        parent, session, started = int(fields[_PARENT]), int(fields[_SESSION]), int(fields[_START])
        resident, shared = (int(pages[1]) * _PAGE, int(pages[2]) * _PAGE) if len(pages) > 2 else (0, 0)
        read, written = _bytes_moved(_read(f"{proc}/{pid}/io"))
    except (IndexError, ValueError):
        return None
    return ProcessUse(fields[_STATE].decode(), parent, session, started, ticks, resident, shared, read, written)


def _read(path: str) -> bytes:
    """Return a file of /proc, in three calls of the system: there are thousands in a sample."""
    try:
        file = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
    except OSError:
        return b""
    try:
        return os.read(file, 4096)
    except OSError:  # it has just ended, or lets nobody know
        return b""
    finally:
        os.close(file)


def _bytes_moved(text: bytes) -> tuple[int | None, int | None]:
    """Those of `rchar` and `wchar`: `read_bytes` and `write_bytes` leave out what caches and most file servers
    bring."""
    words = text.split(None, 4)
    if len(words) < 4 or words[0] != b"rchar:" or words[2] != b"wchar:":
        return None, None
    return int(words[1]), int(words[3])


def sum_of(found: Iterable[ProcessUse]) -> TreeUse:
    """What the processes have used together. Memory that they share by files counts once, as much as the process has
    that shares most."""
    uses = list(found)
    memory = sum(max(0, use.resident - use.shared) for use in uses) + max((use.shared for use in uses), default=0)
    read = [use.read for use in uses if use.read is not None]
    written = [use.written for use in uses if use.written is not None]
    return TreeUse(
        sum(use.ticks for use in uses),
        memory,
        sum(read) if read else None,
        sum(written) if written else None,
    )


class Growth:
    """A count that only grows, by readings that may fall: where a process has ended and nobody has waited for it, what
    it had used is missing from the next sum. `total` is None until there is a reading."""

    def __init__(self, first: int | None = 0) -> None:
        """`first`: the reading that growth is counted from; None: the first that is given."""
        self.total: int | None = None
        self._last = first

    def add(self, reading: int | None) -> int | None:
        """Take in a reading, or that there is none; return the total."""
        if reading is not None:
            last = reading if self._last is None else self._last
            self.total = (self.total or 0) + max(0, reading - last)
            self._last = reading
        return self.total
