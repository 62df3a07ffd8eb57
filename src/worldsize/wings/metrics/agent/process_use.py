"""The use of resources by processes so far, read from files of /proc that never block the reader, in any state of the
process. So `cmdline`, `environ` and `smaps` are not read.

Standard library only: travels inside agent.pyz (Python >= 3.8).
"""

from __future__ import annotations

import os
from collections.abc import Iterable

from worldsize.common.named_tuple import NamedTuple

_PAGE = os.sysconf("SC_PAGE_SIZE")
_STATE, _PARENT, _SESSION, _CPU, _START = 0, 1, 3, slice(11, 15), 19
"""The positions of these values among the fields of `stat` after the command, proc(5). The CPU times are utime, stime,
and those of ended children that were waited for."""


class ProcessUse(NamedTuple):
    """The use of one process, including the children that it has waited for.

    ticks          clock ticks of CPU time
    resident       bytes of resident memory
    shared         the part of `resident` that is files and shared memory
    read, written  bytes; None if the process does not permit reading them
    """

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
    """The sum of the use of several processes."""

    ticks: int
    memory: int
    read: int | None
    written: int | None


def read_process(pid: int, proc: str = "/proc") -> ProcessUse | None:
    """Return the CPU time, memory and bytes moved that the process `pid` has used; None if it has ended or cannot be
    read."""
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
    """Return the first 4096 bytes of a file of /proc with only three system calls, because one sample reads thousands
    of files. Return b"" if it cannot be read."""
    try:
        file = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
    except OSError:
        return b""
    try:
        return os.read(file, 4096)
    except OSError:  # the process has just ended, or does not permit it
        return b""
    finally:
        os.close(file)


def _bytes_moved(text: bytes) -> tuple[int | None, int | None]:
    """Return the bytes that a process has read and written, from `rchar` and `wchar` of its file /proc/PID/io; None if
    they are not known. `read_bytes` and `write_bytes` are not used: they omit bytes from caches and from most file
    servers."""
    words = text.split(None, 4)
    if len(words) < 4 or words[0] != b"rchar:" or words[2] != b"wchar:":
        return None, None
    return int(words[1]), int(words[3])


def sum_of(found: Iterable[ProcessUse]) -> TreeUse:
    """Return the total CPU time, memory and bytes moved of several processes. Memory that they share by files is
    counted once, with the largest amount of any process."""
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
    """A counter that only grows, computed from readings that may fall. A reading falls if a process has ended that was
    not waited for, since its use is missing from the next sum. `total` is None until there is a reading."""

    def __init__(self, first: int | None = 0) -> None:
        """Start the counter. `first` is the reading from which growth is counted; None: the first reading that is
        added."""
        self.total: int | None = None
        self._last = first

    def add(self, reading: int | None) -> int | None:
        """Add a reading of the counter, and return the total growth so far. A reading of None changes nothing; the
        total is None until there is a reading."""
        if reading is not None:
            last = reading if self._last is None else self._last
            self.total = (self.total or 0) + max(0, reading - last)
            self._last = reading
        return self.total
