"""The connection between a command on a node and whoever asked for it: pipes, or files.

Standard library only, and nothing of worldsize: the text of this module travels inside that of `run_command`.
"""

from __future__ import annotations

import os
import select
import signal
import sys
import time
from collections.abc import Callable

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Optional

OUTPUT_LIMIT = 256 << 20
"""Bytes that a command may print on one node where files carry them. What follows is dropped, with a message."""

UNREADABLE = 1 / 12
"""What a second counts as silence in which a file was there and could not be read."""

STOP = "stop"
NOW = "now"
TICK = 0.1
SHORT_TICK = 0.01
_LEASE_TICK = 0.5
_FLUSH_TICK = 0.05
_HELD = 1 << 20


class PipeTransport:
    """Standard output carries what is reported, and standard input is the lifeline."""

    has_room = True
    output_limit = sys.maxsize

    def __init__(self) -> None:
        self._has_ended = False

    def send(self, line: bytes) -> None:
        try:
            while line:
                line = line[os.write(1, line) :]
        except OSError:
            pass  # nobody reads it any more: the lifeline tells that too

    def poll(self) -> str:
        """What was asked for since the last call: "" (nothing), "stop", also by the lifeline's end, or "now"."""
        if self._has_ended:
            return ""
        try:
            if not select.select([0], [], [], 0)[0]:
                return ""
            words = os.read(0, 4096)
        except OSError:
            words = b""
        self._has_ended = not words
        return NOW if NOW.encode() in words else STOP

    def close(self) -> None:
        pass


class Silence:
    """The time, in seconds, in which nothing new was seen. Of that between two looks one second counts at most, so that
    neither a slow file server nor a machine that slept makes anybody look dead."""

    def __init__(self) -> None:
        self.seconds = 0.0
        self._looked_at: Optional[float] = None

    def look(self, now: float, is_new: bool, weight: float = 1.0) -> None:
        """Note a look at `now` (monotonic), and whether it showed anything new. `weight`: what a second without news
        counts; less where nothing could be looked at."""
        passed = 0.0 if self._looked_at is None else min(now - self._looked_at, 1.0)
        self.seconds = 0.0 if is_new else self.seconds + weight * passed
        self._looked_at = now


def silence_weight(error: OSError) -> float:
    """What a second of this error counts as silence: a file server that fails for a while makes nobody look dead."""
    return 1.0 if isinstance(error, FileNotFoundError) else UNREADABLE


class FileTransport:
    """Files of a directory that whoever asked sees too, where nothing else connects the two.

    What is told is appended to one file, opened anew for each portion, since it is closing that sends it to a file
    server.

    The lifeline is the content of `lease`, which whoever asked changes every second. It has to be read: the time of a
    file's last change may be cached for long. `stop N` or `now N` stands there when the end is wanted. Each change is
    answered by an empty line, a sign of life; none for `patience` seconds is a stop.
    """

    output_limit = OUTPUT_LIMIT

    def __init__(
        self,
        directory: str,
        node: int,
        patience: float,
        parent: Optional[int],
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._clock = clock
        self._directory = directory
        self._file = os.path.join(directory, node_file_name(node))
        self._patience = patience
        self._parent = parent
        self._held = bytearray()
        self._silence = Silence()
        self._lease = ""
        self._is_awaited = False
        self._look_at = self._flush_at = 0.0

    def send(self, line: bytes) -> None:
        self._held += line

    @property
    def has_room(self) -> bool:
        """Whether more may be told. What a full disk does not take is kept in memory, up to a limit."""
        return len(self._held) < _HELD

    def wait(self) -> bool:
        """Wait until it is known whether the command is wanted, and return that. It is once the lease has changed: the
        client may have ended long ago."""
        signal.signal(signal.SIGINT, signal.SIG_DFL)  # nothing has to be ended yet
        while not self._is_awaited and not self.poll():
            time.sleep(TICK)
            self._look_at = 0.0
        return not self.poll()

    def poll(self) -> str:
        """Write what was told, and return what is wanted: "" (nothing else), "stop", or "now"."""
        now = self._clock()
        if now >= self._look_at:
            self._look_at = now + _LEASE_TICK
            self._read_lease(now)
        if now >= self._flush_at:
            self._flush_at = now + _FLUSH_TICK
            self._flush()
        if self._parent is not None and os.getppid() != self._parent:
            return NOW
        word = self._lease.partition(" ")[0]
        return word if word in (STOP, NOW) else STOP if self.is_abandoned else ""

    @property
    def is_abandoned(self) -> bool:
        return self._silence.seconds > self._patience

    def close(self) -> None:
        """Write what is left, as long as somebody waits for it. Remove the directory where nobody is left who would."""
        self._flush()
        while self._held and not self.is_abandoned:
            time.sleep(SHORT_TICK)
            self.poll()
        if self.is_abandoned:
            remove_directory(self._directory)

    def _read_lease(self, now: float) -> None:
        try:
            with open(os.path.join(self._directory, "lease"), encoding="latin-1") as file:
                lease = file.read().strip()
        except OSError as error:
            self._silence.look(now, False, silence_weight(error))
            return
        is_new = lease != self._lease
        self._silence.look(now, is_new)
        if is_new:
            self._is_awaited = self._lease != ""
            self._lease = lease
            self._held += b"\n"

    def _flush(self) -> None:
        """Append to the file what was sent. What cannot be written is kept, and tried again."""
        if not self._held:
            return
        try:
            with open(self._file, "r+b", buffering=0) as file:
                file.seek(0, os.SEEK_END)
                while self._held:
                    del self._held[: file.write(self._held)]
        except OSError:
            pass


def node_file_name(node: int) -> str:
    return f"node-{node:04d}"


def remove_directory(directory: str) -> None:
    """Remove the directory, or what of it can be removed. It is tried three times: another node may remove it too, or
    still write."""
    from shutil import rmtree

    for _ in range(3):
        rmtree(directory, ignore_errors=True)
