"""The connection between a command on a node and its client: pipes, or files.

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
"""The most bytes that a command may print on one node if files carry its output. Further output is dropped, with a
message."""

UNREADABLE = 1 / 12
"""The amount that a second counts as silence if a file existed but could not be read."""

STOP = "stop"
NOW = "now"
TICK = 0.1
SHORT_TICK = 0.01
_LEASE_TICK = 0.5
_FLUSH_TICK = 0.05
_HELD = 1 << 20


class PipeTransport:
    """A connection by pipes: reports are written to standard output, and standard input is the lifeline."""

    has_room = True
    output_limit = sys.maxsize

    def __init__(self) -> None:
        self._has_ended = False

    def send(self, line: bytes) -> None:
        try:
            while line:
                line = line[os.write(1, line) :]
        except OSError:
            pass  # the reader has gone, which the lifeline shows, too

    def poll(self) -> str:
        """Return the client's request since the last call, read from standard input: "" for none, "stop", also if the
        lifeline has been closed, or "now"."""
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
    """The time, in seconds, without anything new. At most one second is counted between two looks, so that neither a
    slow file server nor a machine that slept makes the other side appear dead."""

    def __init__(self) -> None:
        self.seconds = 0.0
        self._looked_at: Optional[float] = None

    def look(self, now: float, is_new: bool, weight: float = 1.0) -> None:
        """Record a look at a file of the other side at time `now` (monotonic), and whether it showed anything new.
        `weight` is the amount that a second without news counts; it is less if the look failed."""
        passed = 0.0 if self._looked_at is None else min(now - self._looked_at, 1.0)
        self.seconds = 0.0 if is_new else self.seconds + weight * passed
        self._looked_at = now


def silence_weight(error: OSError) -> float:
    """Return the amount that a second counts as silence of the other side if its file could not be read with this
    error. It is small for a file that exists but cannot be read, so that a file server that fails for a while makes no
    process appear dead."""
    return 1.0 if isinstance(error, FileNotFoundError) else UNREADABLE


class FileTransport:
    """A connection by files in a directory that the client sees, too, where no other connection exists.

    Reports are appended to one file. It is opened again for each portion, because closing the file sends it to the file
    server.

    The lifeline is the content of `lease`, which the client changes every second. The content has to be read, because
    the time of a file's last change may be cached for long. It is `stop N` or `now N` when the command should end. Each
    change is answered by an empty line as a sign of life. No change for `patience` seconds is a stop.
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
        """The flag whether more may be reported. Reports that a full disk does not accept are kept in memory, up to a
        limit."""
        return len(self._held) < _HELD

    def wait(self) -> bool:
        """Wait until it is known whether the client still wants the command, and return that. The client may have ended
        long ago, so the command is wanted only once the file `lease` has changed."""
        signal.signal(signal.SIGINT, signal.SIG_DFL)  # there is nothing to terminate yet
        while not self._is_awaited and not self.poll():
            time.sleep(TICK)
            self._look_at = 0.0
        return not self.poll()

    def poll(self) -> str:
        """Write the reports that are due to the node's file, and return the request in the client's file `lease`: ""
        for none, "stop", also if the client has gone, or "now", also if the parent process has ended."""
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
        """Write the remaining reports to the node's file while the client is alive. Remove the command's directory if
        the client has gone and cannot do so."""
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
        """Append the reports to the node's file. Reports that cannot be written are kept, and tried again."""
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
    """Remove the directory of a node command as far as possible. Removal is tried three times, since another node may
    remove it, too, or still write to it."""
    from shutil import rmtree

    for _ in range(3):
        rmtree(directory, ignore_errors=True)
