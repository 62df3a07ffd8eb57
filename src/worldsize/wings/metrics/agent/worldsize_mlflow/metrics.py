"""The writer of the metrics that MLflow logs in a rank. A thread writes them, so that a training step never waits for a
disk.

Standard library only.
"""

from __future__ import annotations

import atexit
import os
import sys
import threading
from collections import deque

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any, Callable

MOST_QUEUED = 200000
"""The most values that wait to be written; beyond this number, the oldest are dropped."""

MOST_NAMES = 10000
INTERVAL, PATIENCE = 1.0, 5.0


class MetricWriter:
    """A queue of lines of MLflow metrics that a thread appends to files, about once a second and at the end of the
    process. `write` writes them at once.

    A private writer only keeps the newest line of each file, in memory, until `write` is called. `fail` is called with
    the error of a disk that refuses to write.
    """

    def __init__(self, is_private: bool, fail: Callable[[OSError], None]) -> None:
        self.is_private = is_private
        self._fail = fail
        self._newest: dict[str, str] = {}
        self._begin()
        atexit.register(self.close)
        os.register_at_fork(after_in_child=self._begin)

    def _begin(self) -> None:
        """Initialise the queue of lines. This is repeated in a forked process, which leaves its parent's lines to the
        parent."""
        self._queue: deque[tuple[str, str]] = deque(maxlen=MOST_QUEUED)
        self._writing = threading.Lock()
        self._wake = threading.Event()
        self._thread: Any = None

    def add(self, path: str, line: str) -> None:
        """Queue a line of a metric for the file `path`. A private writer replaces the line that is queued for this
        file."""
        if self.is_private:
            if path in self._newest or len(self._newest) < MOST_NAMES:
                self._newest[path] = line
            return
        self._queue.append((path, line))
        if self._thread is None:
            self._start()

    def _start(self) -> None:
        multiprocessing = sys.modules.get("multiprocessing.util")
        if multiprocessing is not None:
            multiprocessing.Finalize(None, self.close, exitpriority=0)  # its forked workers do not run atexit hooks
        self._thread = threading.Thread(target=self._work, args=(self._wake,), name="worldsize.mlflow", daemon=True)
        try:
            self._thread.start()
        except RuntimeError:  # the interpreter is shutting down, or cannot start a thread
            self._thread = None
            self.write()

    def _work(self, wake: threading.Event) -> None:
        while not wake.wait(INTERVAL):
            self.write()
        self.write()

    def close(self) -> None:
        """Write the queued lines and end the writing thread, waiting for it at most PATIENCE seconds. A later line
        starts another thread."""
        thread, self._thread = self._thread, None
        if thread is not None:
            self._wake.set()
            thread.join(PATIENCE)
            self._wake = threading.Event()

    def write(self) -> None:
        """Write the queued lines to their files in this thread. If another thread is writing, wait for it at most
        PATIENCE seconds, else give up."""
        if not self._writing.acquire(timeout=PATIENCE):
            return
        try:
            for path, lines in self._taken().items():
                self._write(path, "".join(lines))
        finally:
            self._writing.release()

    def _taken(self) -> dict[str, list[str]]:
        """Remove the queued lines from the queue, and return them as lists by the path of their file."""
        found: dict[str, list[str]] = {path: [line] for path, line in list(self._newest.items())}
        self._newest.clear()
        for _ in range(len(self._queue)):  # bounded: other threads may add lines faster than this loop
            path, line = self._queue.popleft()
            found.setdefault(path, []).append(line)
        return found

    def _write(self, path: str, text: str) -> None:
        try:
            os.makedirs(os.path.dirname(path), exist_ok=True)
            _append(path, text.encode("utf-8", "replace"), os.O_TRUNC if self.is_private else os.O_APPEND)
        except OSError as error:
            self._fail(error)


def _append(path: str, data: bytes, how: int) -> None:
    """Write all of `data` to the file at `path`, or nothing: MLflow does not accept an empty file or a line that is
    cut. `how` is O_APPEND or O_TRUNC. Raise OSError."""
    file = os.open(path, os.O_WRONLY | os.O_CREAT | how, 0o666)
    size = os.fstat(file).st_size
    try:
        while data:
            data = data[os.write(file, data) :]
    except OSError:
        os.ftruncate(file, size)
        if not size:
            os.unlink(path)
        raise
    finally:
        os.close(file)
