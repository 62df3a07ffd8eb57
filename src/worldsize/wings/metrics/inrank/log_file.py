"""The file of the values that a rank has logged. Calls are queued, and a thread writes them about once a second.

Nothing here raises. Lines are whole: a batch of them is one write at the end of the file. Standard library only; runs
in any Python that the rank has.
"""

from __future__ import annotations

import atexit
import itertools
import json
import math
import os
import sys
import threading
from collections import deque
from typing import Any, Callable, Deque, List, Optional, Tuple

MOST_QUEUED = 20000
"""The most calls that wait to be written; beyond this number, the oldest are dropped and counted."""

INTERVAL = 1.0
PATIENCE = 5.0
"""The most seconds that the end of a process waits for a disk or a device."""


Call = Tuple[float, Any, List[Tuple[str, Any]]]
"""The time, the step, and the values by name. Each number may be a function that returns it."""

Tell = Callable[[str, str], None]


class LogFile:
    """A file to which a thread appends the calls of `worldsize.log` in this process. Processes that are forked from it
    append their own calls.

    `tell(kind, text)` is called if something cannot be written.
    """

    def __init__(self, path: str, tell: Tell, interval: float = INTERVAL) -> None:
        self.path = path
        self._tell = tell
        self._interval = interval
        self._file: Optional[int] = None
        self._is_cut = False
        self._begin()
        atexit.register(self.close)
        os.register_at_fork(after_in_child=self._begin)

    def _begin(self) -> None:
        """Initialise the queue of calls, without calls and without a thread. This is repeated in a forked process,
        which leaves its parent's calls to the parent."""
        self._queue: Deque[Tuple[int, Call]] = deque(maxlen=MOST_QUEUED)
        self._numbers = itertools.count()
        self._next = self._lost = 0
        self._writing = threading.Lock()
        self._wake = threading.Event()
        self._thread: Optional[threading.Thread] = None
        self._is_closed = False

    def add(self, call: Call) -> None:
        """Queue a call of `worldsize.log` for the writing thread. This uses no lock, so that a signal handler may log,
        too."""
        self._queue.append((next(self._numbers), call))
        if self._thread is None:
            self._start()

    def _start(self) -> None:
        multiprocessing = sys.modules.get("multiprocessing.util")
        if multiprocessing is not None:
            multiprocessing.Finalize(None, self.close, exitpriority=0)  # its forked workers do not run atexit hooks
        self._thread = threading.Thread(target=self._work, name="worldsize.log", daemon=True)
        try:
            self._thread.start()
        except RuntimeError:  # the interpreter is shutting down, or cannot start a thread
            self._thread = None
            self.write()

    def _work(self) -> None:
        while not self._is_closed:
            self._wake.wait(self._interval)
            self.write()
        self.write()  # the calls that were queued meanwhile

    def close(self) -> None:
        """Write the queued calls to the file and end the writing thread, waiting for it at most PATIENCE seconds. A
        later call of `worldsize.log` starts another thread."""
        thread, self._thread = self._thread, None
        if thread is None:
            return
        self._is_closed = True
        self._wake.set()
        thread.join(PATIENCE)
        self._is_closed = False
        self._wake.clear()

    def write(self) -> None:
        """Append the lines of all queued calls of `worldsize.log` to the file. Calls that cannot be written are
        dropped, and counted in a line of the next batch that can be written."""
        if not self._writing.acquire(timeout=PATIENCE):
            return
        try:
            lines, count = self._lines()
            if lines and self._append("".join(lines).encode("utf-8", "replace")):
                self._lost = 0
            elif lines:
                self._lost += count
        except Exception as error:  # noqa: BLE001  the thread must not end
            self._tell("disk", f"cannot write: {error}")
        finally:
            self._writing.release()

    def _lines(self) -> Tuple[List[str], int]:
        """Remove the calls from the queue, and return the lines of JSON to write for them, and the number of calls.
        Numbers missing between the calls count as dropped calls, which a first line reports."""
        calls = []
        for _ in range(len(self._queue)):  # bounded: other threads may add calls faster than this loop
            number, call = self._queue.popleft()
            self._lost += number - self._next
            self._next = number + 1
            calls.append(call)
        lines = [json.dumps({"dropped": self._lost}, separators=(",", ":")) + "\n"] if self._lost and calls else []
        return lines + [line for line in map(line_of, calls) if line], len(calls)

    def _append(self, data: bytes) -> bool:
        try:
            if self._file is None:
                self._file = _opened(self.path)
            data = b"\n" + data if self._is_cut else data
            while data:
                self._is_cut = True
                data = data[os.write(self._file, data) :]
            self._is_cut = False
        except OSError as error:
            self._tell("disk", f"cannot write {self.path}: {error.strerror}")
            self._forget_file()
            return False
        return True

    def _forget_file(self) -> None:
        file, self._file = self._file, None
        try:
            if file is not None:
                os.close(file)
        except OSError:
            pass  # some file servers report a failed write only now; it has been reported


def _opened(path: str) -> int:
    """Open the file at `path` for appending, create its directory, and return the descriptor. Both get the permissions
    of the attempt's directory, so that a user who may not read that one can read neither. Raise OSError."""
    folder = os.path.dirname(path)
    mode = os.stat(os.path.dirname(folder)).st_mode & 0o777
    try:
        os.mkdir(folder, mode)
        os.chmod(folder, mode)  # independent of the rank's umask
    except FileExistsError:
        pass  # another rank has created it
    flags = os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC | os.O_NOFOLLOW | os.O_NONBLOCK
    return os.open(path, flags, mode & 0o666)


def line_of(call: Call) -> str:
    """Return one call of `worldsize.log` as a line of JSON {time, step, values}; "" if none of its values is a number
    after all."""
    time, step, values = call
    found = {}
    for name, value in values:
        number = _number(value)
        if number is not None:
            found[name] = number if math.isfinite(number) else str(number)
    if not found:
        return ""
    line = {"time": round(time, 3), "step": _whole(step), "values": found}
    return json.dumps(line, separators=(",", ":")) + "\n"


def _number(value: Any) -> Optional[float]:
    if not callable(value):
        return float(value)
    try:
        return float(value())
    except Exception:  # noqa: BLE001  a deleted tensor, or a device that has failed
        return None


def _whole(step: Any) -> Optional[int]:
    """Return the step of a call of `worldsize.log` as an integer; None if it is no whole number."""
    if step is None or type(step) is int:
        return step
    number = _number(step)
    return int(number) if number is not None and math.isfinite(number) and number == int(number) else None
