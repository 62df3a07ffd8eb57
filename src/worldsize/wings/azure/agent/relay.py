"""Sender of what a node writes into its run directory, as lines of the node's log (`log_lines`). The log is the only
way from a node to the client that is always available.

Standard library only: travels inside agent.pyz (Python >= 3.8).
"""

from __future__ import annotations

import errno
import os
import select
import stat
import time
from collections import deque
from collections.abc import Callable, Iterable, Iterator

from worldsize.common.atomic_files import Descriptor
from worldsize.common.named_tuple import NamedTuple
from worldsize.plan.run_paths import RunPaths
from worldsize.wings.azure.agent.log_lines import MOST_BYTES, MOST_FILE_BYTES, LogLines, Piece
from worldsize.wings.azure.agent.node_files import DIRECTORIES, EXIT, NodeFiles, is_replaced

HOLD = 2.0
"""Seconds for which an incomplete line waits for its line end."""

PATIENCE = 30.0
"""Seconds that a node waits at its end for the reader of its log."""

_PAUSE = 0.05
_CHUNK = 64 << 10
_DIRECTORY = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
_FILE = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_NOCTTY | os.O_CLOEXEC
_NOBODY_READS = (errno.EPIPE, errno.EBADF)


class _Sent:
    """The state of a file that has been sent in part. `at` is its next byte. `size` is the size when it was last read.
    `since` is the time when the line at `at` was first found without its line end."""

    __slots__ = ("at", "inode", "since", "size", "version")

    def __init__(self, inode: int, version: int) -> None:
        self.inode = inode
        self.version = version
        self.at = 0
        self.size = -1
        self.since: float | None = None


class _Found(NamedTuple):
    """A file of the node, found in its directory. `name` is its path below the attempt's directory."""

    name: str
    status: os.stat_result


class Relay:
    """Sender of the files of one attempt that one node writes. To be used from one thread. No method raises OSError.

    out    the descriptor of the node's log; if it accepts no more for a while, unsent data waits on the disk
    key    the key that the client also has
    clock  in seconds, never backwards; `sleep` takes seconds
    begun  a number greater than that of an earlier relay of the same attempt and node
    """

    def __init__(
        self,
        paths: RunPaths,
        node_rank: int,
        ranks: Iterable[int],
        out: int,
        key: bytes,
        clock: Callable[[], float] = time.monotonic,
        sleep: Callable[[float], object] = time.sleep,
        begun: int | None = None,
    ) -> None:
        self._root = paths.attempt_dir
        self._attempt = os.path.basename(paths.attempt_dir)
        self._files = NodeFiles(node_rank, ranks)
        self._out = out
        self._lines = LogLines(key)
        self._clock = clock
        self._sleep = sleep
        self._version = int(time.time() * 1000) if begun is None else begun
        self._sent: dict[str, _Sent] = {}
        self._replaced: dict[str, tuple[int, int, int]] = {}
        self._pending: deque[bytes] = deque()
        self._poll = select.poll()
        self._poll.register(out, select.POLLOUT)
        self._holds = True
        self._is_closed = False

    def step(self) -> bool:
        """Write some of the new data of the node's files to the node's log, without waiting. Return whether more could
        be sent at once. An exit record is sent after everything that existed before it."""
        if not self._flush():
            return False
        ended = self._look(EXIT)
        holds = self._holds and not ended
        more = False
        for directory in DIRECTORIES[:-1]:
            for found in self._look(directory):
                more = self._send(found, holds) or more
        if not more:
            for found in ended:
                more = self._send(found, False) or more
        return self._flush() and more

    def finish(self, patience: float = PATIENCE) -> None:
        """Write the rest of the node's files to the node's log, including lines without their line end. Give up after
        `patience` seconds."""
        self._holds = False
        last = self._clock() + patience
        while self.step() or self._pending:
            left = last - self._clock()
            if left <= 0:
                return
            if self._pending:
                self._sleep(min(left, _PAUSE))

    # looking and reading

    def _look(self, directory: str) -> list[_Found]:
        """Return the regular files that this node writes in the subdirectory `directory` of the attempt, sorted by
        name, with their stat. Links are left out."""
        start = f"{directory}/" if directory else ""
        try:
            with Descriptor(self._open_directory(directory)) as place, os.scandir(place) as entries:
                own = [entry for entry in entries if start + entry.name in self._files]
                statuses = [(start + entry.name, _status(entry)) for entry in own]
        except OSError:  # the directory does not exist yet, or no longer
            return []
        return sorted(_Found(name, status) for name, status in statuses if status and stat.S_ISREG(status.st_mode))

    def _read(self, found: _Found, at: int, most: int) -> bytes | None:
        """Return up to `most` bytes of the node's file `found` from the byte `at` on; None if the file was replaced, or
        cannot be read."""
        directory, _, name = found.name.rpartition("/")
        try:
            with Descriptor(self._open_directory(directory)) as place:
                file = os.open(name, _FILE, dir_fd=place)
            with Descriptor(file):
                return os.pread(file, most, at) if os.fstat(file).st_ino == found.status.st_ino else None
        except OSError:
            return None

    def _open_directory(self, name: str) -> int:
        return os.open(f"{self._root}/{name}" if name else self._root, _DIRECTORY)

    # sending

    def _send(self, found: _Found, holds: bool) -> bool:
        """Queue the new data of the node's file `found` for writing to the node's log. With `holds`, an incomplete last
        line waits for its end. Return whether there is more."""
        if is_replaced(found.name):
            self._send_whole(found)
            return False
        return self._send_new(found, holds)

    def _send_whole(self, found: _Found) -> None:
        status = found.status
        mark = status.st_ino, status.st_size, status.st_mtime_ns
        if self._replaced.get(found.name) == mark or status.st_size > MOST_FILE_BYTES:
            return
        data = self._read(found, 0, MOST_FILE_BYTES)
        if data is None:
            return
        self._replaced[found.name] = mark
        piece = Piece(self._path(found), self._next_version(), 0, data, len(data))
        self._write(self._lines.marked_lines(piece))

    def _send_new(self, found: _Found, holds: bool) -> bool:
        size, sent = found.status.st_size, self._sent.get(found.name)
        if sent is None or sent.inode != found.status.st_ino or size < sent.at:
            sent = self._sent[found.name] = _Sent(found.status.st_ino, self._next_version())
            self._write(self._lines.marked_lines(Piece(self._path(found), sent.version, 0, b"")))
        if size == sent.at or (holds and size == sent.size and not self._is_due(sent)):
            return False
        data = self._read(found, sent.at, min(size - sent.at, _CHUNK))
        if not data:
            return False
        is_cut = len(data) == _CHUNK
        if not self._takes_all(sent, data, holds, is_cut):
            data = data[: data.rfind(b"\n") + 1]
        piece = Piece(self._path(found), sent.version, sent.at, data)
        rank = self._files.rank_of_log(found.name)
        if data:
            self._write(self._lines.marked_lines(piece) if rank is None else self._lines.rank_lines(rank, piece))
        sent.at += len(data)
        sent.size = -1 if is_cut else size
        return is_cut

    def _takes_all(self, sent: _Sent, data: bytes, holds: bool, is_cut: bool) -> bool:
        """Return whether all of `data`, the next bytes of a file, is sent, including a last line without its line end.
        It is if that line has waited long enough, is too long to wait, or the relay no longer holds incomplete lines.
        """
        end = data.rfind(b"\n") + 1
        if end == len(data) or (is_cut and end == 0) or (not holds and not is_cut) or (end == 0 and self._is_due(sent)):
            sent.since = None
            return True
        if end or sent.since is None:
            sent.since = self._clock()
        return False

    def _is_due(self, sent: _Sent) -> bool:
        return sent.since is not None and self._clock() - sent.since >= HOLD

    def _path(self, found: _Found) -> str:
        return f"{self._attempt}/{found.name}"

    def _next_version(self) -> int:
        self._version += 1
        return self._version

    # writing

    def _write(self, lines: Iterator[bytes]) -> None:
        """Queue authenticated lines for the node's log, in blocks that a pipe accepts without mixing them with those of
        other processes."""
        for line in lines:
            if self._pending and len(self._pending[-1]) + len(line) <= MOST_BYTES:
                self._pending[-1] += line
            else:
                self._pending.append(line)

    def _flush(self) -> bool:
        """Write queued lines to the node's log as far as possible without waiting. Return whether nothing is left and
        the log still accepts data."""
        while self._pending and not self._is_closed and self._poll.poll(0):
            lines = self._pending[0]
            try:
                written = os.write(self._out, lines)
            except OSError as error:
                self._is_closed = error.errno in _NOBODY_READS
                break
            if written == len(lines):
                self._pending.popleft()
            else:
                self._pending[0] = lines[written:]
        if self._is_closed:
            self._pending.clear()
        return not self._pending and not self._is_closed


def _status(entry: os.DirEntry[str]) -> os.stat_result | None:
    try:
        return entry.stat(follow_symlinks=False)
    except OSError:
        return None
