"""Stacks that ranks write themselves, at a signal, with faulthandler, if the hook in the rank has registered it
(`inrank`).

The signal ends a process that does not expect it. So it is sent only to a process that catches it, does not block it in
a thread that could receive it, and has the rank's file of stacks open. A forked child inherits all that from its
parent, and writes into the same file: so only one process writes to each file at a time.

Standard library only: travels inside agent.pyz (Python >= 3.8).
"""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Mapping

from worldsize.common.atomic_files import Descriptor, read_if_possible
from worldsize.common.named_tuple import NamedTuple
from worldsize.wings.hangs.judgement.stacks.rank_stacks import ThreadStack, parse_faulthandler

SIGNALS_BELOW_LAST = 3
"""The same value as in `inrank`, which is loaded without this package."""

SECONDS_EACH = 2.0
"""The maximum number of seconds for one process to write. It writes at once, unless the kernel does not let it run."""

_QUIET = 0.15
"""Seconds without a further byte after which a dump counts as complete, since nothing marks its end."""

_LOOK = 0.02
_MOST_BYTES = 1 << 20
_MOST_KEPT = 8 << 20
"""The size in bytes above which a rank's file is emptied before the next dump, since looks at a run may continue for
weeks."""


class SignalAnswer(NamedTuple):
    """The threads that a process has written; none if there is a `problem`."""

    threads: tuple[ThreadStack, ...]
    problem: str


def dump_signal() -> int:
    """Return the number of the signal, on this system, at which ranks write their stacks by faulthandler."""
    return signal.SIGRTMAX - SIGNALS_BELOW_LAST


def ask_by_signal(files: Mapping[int, str], deadline: float) -> dict[int, SignalAnswer]:
    """Request the stacks of each process in `files` by a signal to faulthandler, and return the answers by process ID.
    `files` maps each process ID to the file that the process writes to. Processes with different files write at the
    same time. Each process has `SECONDS_EACH` at most, and none writes after `deadline` (monotonic). Raise nothing."""
    answers: dict[int, SignalAnswer] = {}
    waiting: dict[str, list[int]] = {}
    for pid, path in files.items():
        waiting.setdefault(path, []).append(pid)
    while waiting:
        asked = [_Request(pids.pop(0), path) for path, pids in waiting.items()]
        for request in asked:
            request.send(deadline)
        while any(request.is_open() for request in asked):
            time.sleep(_LOOK)
            for request in asked:
                request.look()
        answers.update({request.pid: request.answer() for request in asked})
        waiting = {path: pids for path, pids in waiting.items() if pids}
    return answers


def refusal(pid: int, path: str) -> str:
    """Return the reason why the signal of faulthandler must not be sent to the process `pid`, which would write to
    `path`. "" if it may be sent."""
    masks = _signal_masks(pid)
    bit = 1 << (dump_signal() - 1)
    if not masks.get("SigCgt", 0) & bit:
        return "faulthandler is not registered in it"
    if masks.get("SigBlk", 0) & bit:
        return "its main thread blocks the signal of faulthandler"
    if not _has_open(pid, path):
        return "its file for faulthandler is not open in it"
    return ""


def _signal_masks(pid: int) -> dict[str, int]:
    """Return the signal sets of the main thread of the process `pid` as bit masks, by their names in proc(5), such as
    SigCgt."""
    found: dict[str, int] = {}
    for line in read_if_possible(f"/proc/{pid}/status").split(b"\n"):
        name, _, value = line.partition(b":")
        if name.startswith(b"Sig") and name != b"SigQ":
            try:
                found[name.decode("ascii", "replace")] = int(value, 16)
            except ValueError:
                pass
    return found


def _has_open(pid: int, path: str) -> bool:
    """Return whether the process `pid` has the file `path` open. A program may have closed all descriptors that it does
    not know, and have another file under that number. If this process may not read the descriptors, return whether any
    process has the file open."""
    folder = f"/proc/{pid}/fd"
    try:
        wanted = os.stat(path)
        return any(_is_file(f"{folder}/{number}", wanted) for number in os.listdir(folder))
    except PermissionError:
        return _is_open_somewhere(path)
    except OSError:
        return False


def _is_file(link: str, wanted: os.stat_result) -> bool:
    """Return whether `link`, the /proc link of a process's descriptor, leads to the file with the status `wanted`.
    Raise PermissionError."""
    try:
        if not os.readlink(link).startswith("/"):
            return False  # a pipe or a socket
        found = os.stat(link)
    except FileNotFoundError:
        return False
    return (found.st_dev, found.st_ino) == (wanted.st_dev, wanted.st_ino)


def _is_open_somewhere(path: str) -> bool:
    """Return whether a process of this machine has the file `path` open for writing: the kernel then grants no lease
    for reading. False if the file system grants no leases at all, as with most network file systems."""
    import fcntl

    try:
        with Descriptor(os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)) as file:
            fcntl.fcntl(file, fcntl.F_SETLEASE, fcntl.F_RDLCK)
    except BlockingIOError:
        return True
    except OSError:
        pass
    return False


def make_room(path: str, most: int) -> None:
    """Empty the rank's file of stacks `path` if it has more than `most` bytes. The writing process appends, and
    continues at the new end."""
    try:
        if os.stat(path, follow_symlinks=False).st_size > most:
            flags = os.O_WRONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
            with Descriptor(os.open(path, flags)) as file:
                os.ftruncate(file, 0)
    except OSError:
        pass  # then it grows


class _Request:
    """A request to one process to write its stacks, from the present end of the file on."""

    def __init__(self, pid: int, path: str) -> None:
        self.pid = pid
        self._path = path
        self._start = 0
        self._data = b""
        self._problem = ""
        self._until = self._grown = 0.0
        self._is_open = False

    def send(self, deadline: float) -> None:
        now = time.monotonic()
        self._problem = refusal(self.pid, self._path)
        if now >= deadline:
            self._problem = "there was no time left for faulthandler"
        if self._problem:
            return
        make_room(self._path, _MOST_KEPT)
        try:
            self._start = os.stat(self._path).st_size
            os.kill(self.pid, dump_signal())
        except OSError as error:
            self._problem = f"faulthandler: {error.strerror}"
            return
        self._until, self._grown, self._is_open = min(deadline, now + SECONDS_EACH), now, True

    def is_open(self) -> bool:
        return self._is_open

    def look(self) -> None:
        """Read the stacks that the process has written to its file since the request was sent. The request ends when
        the data is quiet and complete, or at the time limit."""
        if not self._is_open:
            return
        now = time.monotonic()
        data = self._written()
        if data != self._data:
            self._data, self._grown = data, now
        quiet = now - self._grown >= _QUIET and self._data.endswith(b"\n")
        self._is_open = not quiet and now < self._until

    def _written(self) -> bytes:
        try:
            flags = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
            with Descriptor(os.open(self._path, flags)) as file:
                return os.pread(file, _MOST_BYTES, self._start)
        except OSError:
            return self._data

    def answer(self) -> SignalAnswer:
        dumps = parse_faulthandler(self._data.decode("utf-8", "replace"))
        problem = self._problem or ("" if dumps else "faulthandler did not answer")
        return SignalAnswer(dumps[-1] if dumps else (), problem)
