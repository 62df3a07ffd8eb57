"""The files of one node in the client's copy of a run directory, and how long each was when its log was last read."""

from __future__ import annotations

import errno
import os
import stat
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any

from worldsize.common.atomic_files import IRREGULAR_FILE, Descriptor, read_object, write_all, write_json
from worldsize.common.json_values import PARSE_ERRORS, check_fields, require_version, tuple_of
from worldsize.common.named_tuple import NamedTuple
from worldsize.plan.run_paths import RunPaths
from worldsize.wings.azure.agent.log_lines import Piece
from worldsize.wings.azure.agent.node_files import is_replaced

STATE_VERSION = 1
MOST_FILES = 4096
"""The most files of one log. A node has a dozen, and a handful for each of its ranks."""

_DIRECTORY = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
_FILE = os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_NOCTTY | os.O_CLOEXEC
_LOST = b"\nworldsize: %d bytes were lost on their way from the node\n"


class FileState(NamedTuple):
    """The state of a file in the copy. `version` is the node's number for its last beginning. `end` is how many of its
    bytes have arrived or were lost. `size` is how many it has here. A file that is replaced as a whole is counted at
    the place where its pieces are collected."""

    version: int = -1
    end: int = 0
    size: int = 0


class LogState(NamedTuple):
    """The state of a log. `offset` is the number of bytes of the log that were read. `others` is the size of the file
    with the text of others."""

    offset: int = 0
    others: int = 0
    files: Mapping[str, FileState] = {}


class _Tail:
    """The data to be written at the end of a file, after its first `size` bytes."""

    def __init__(self, size: int) -> None:
        self.size = size
        self.parts: list[bytes] = []


class MirroredFiles:
    """The files of one node in the client's copy of a run directory, with new data that is collected and written by
    `write`. `log` is the name of the node's log without its directory, `umask` that of the run. Methods raise OSError.
    """

    def __init__(self, paths: RunPaths, node_rank: int, log: str, umask: int = 0o077) -> None:
        self._umask = umask
        self._root = paths.root
        self._others = os.path.relpath(paths.setup_log(node_rank), paths.root)
        self._parts = f"relay/{log}-"
        self._state_path = os.path.join(paths.root, "relay", f"{log}.json")
        self._files: dict[str, FileState] = {}
        self._tails: dict[str, _Tail] = {}
        self._wholes: dict[str, bytes] = {}
        self._others_size = 0

    def load(self) -> LogState:
        """Load and return the recorded state of the node's log: how far it was read, and the sizes of the files. If a
        file has lost data that was written, the state is that of a log that has not been read."""
        state = _parse_state(read_object(self._state_path))
        sizes = {self._place(file): known.size for file, known in state.files.items()}
        if any(self._size(place) < size for place, size in {**sizes, self._others: state.others}.items()):
            state = LogState()
        self._files = dict(state.files)
        self._others_size = state.others
        return state

    def take(self, piece: Piece) -> bool:
        """Collect `piece`, a piece of a node's file, to be written by `write`. Return whether it begins a new version
        of its file. Data that has already arrived is skipped."""
        known = self._files.get(piece.file, FileState())
        if piece.version < known.version or (piece.file not in self._files and len(self._files) >= MOST_FILES):
            return False
        place, begins = self._place(piece.file), piece.version > known.version
        if begins:
            known = FileState(piece.version)
            self._tails[place] = _Tail(0)
        data, end = piece.data[max(0, known.end - piece.at) :], max(known.end, piece.at + len(piece.data))
        if piece.at > known.end and piece.whole is None:
            data = _LOST % (piece.at - known.end) + data
        elif piece.at > known.end:  # this version can never be complete, but a later one can
            data, end = b"", known.end
        if data or begins:
            tail = self._tails.setdefault(place, _Tail(known.size))
            tail.parts.append(data)
            self._files[piece.file] = FileState(piece.version, end, known.size + len(data))
            if end == piece.whole:
                self._wholes[piece.file] = self._first_bytes(place, tail.size) + b"".join(tail.parts)
        return begins

    def append_others(self, text: bytes) -> None:
        """Collect `text` that other processes than the agent have written to the node's log, to be written by
        `write`."""
        self._tails.setdefault(self._others, _Tail(self._others_size)).parts.append(text)
        self._others_size += len(text)

    def write(self, state: LogState) -> None:
        """Write the collected data to the files of the run directory, with the files that are replaced as a whole last.
        Then save `state` with the new sizes."""
        for place, tail in self._tails.items():
            self._write_from(place, tail.size, b"".join(tail.parts))
        for path, data in self._wholes.items():
            self._replace(path, data)
        self.save(state._replace(files=self._files, others=self._others_size))

    def save(self, state: LogState) -> None:
        write_json(self._state_path, {"version": STATE_VERSION, **state._asdict()}, private=True)

    def _place(self, file: str) -> str:
        """Return the path to which the data of the node's file `file` is written. The data of a file that is replaced
        as a whole is collected at another path until it is complete."""
        return self._parts + file.replace("/", "-") if is_replaced(file) else file

    def _size(self, place: str) -> int:
        try:
            return os.lstat(os.path.join(self._root, place)).st_size
        except OSError:
            return 0

    def _first_bytes(self, place: str, size: int) -> bytes:
        if not size:
            return b""
        with self._opened(place) as file:
            return os.pread(file, size, 0)

    @contextmanager
    def _opened(self, path: str) -> Iterator[int]:
        """Open the regular file `path`, relative to the run's directory, for reading and writing while the context is
        entered, and yield its descriptor. The file is made if it is missing."""
        with (
            self._opened_directory(path) as (place, name),
            Descriptor(os.open(name, _FILE, 0o600, dir_fd=place)) as file,
        ):
            if not stat.S_ISREG(os.fstat(file).st_mode):
                raise OSError(errno.EINVAL, IRREGULAR_FILE)
            os.fchmod(file, 0o666 & ~self._umask)
            yield file

    def _replace(self, path: str, data: bytes) -> None:
        whole = self._place(path) + ".whole"
        self._write_from(whole, 0, data)
        with self._opened_directory(path) as (place, name):
            os.replace(os.path.join(self._root, whole), name, dst_dir_fd=place)

    def _write_from(self, path: str, at: int, data: bytes) -> None:
        """Write `data` after the first `at` bytes of the file `path` in the run directory, and cut off what the file
        had after them."""
        with self._opened(path) as file:
            os.ftruncate(file, at)
            os.lseek(file, at, os.SEEK_SET)
            write_all(file, data)

    @contextmanager
    def _opened_directory(self, path: str) -> Iterator[tuple[int, str]]:
        """Open the directory of a file below the run's directory. Yield its descriptor and the file's name in it.
        Missing directories are made, and none may be a link."""
        *directories, name = path.split("/")
        try:
            place = os.open(self._root, _DIRECTORY & ~os.O_NOFOLLOW)
            for each in directories:
                with Descriptor(place) as above:
                    try:
                        os.mkdir(each, 0o700, dir_fd=above)
                        os.chmod(each, 0o777 & ~self._umask, dir_fd=above)
                    except FileExistsError:
                        pass
                    place = os.open(each, _DIRECTORY, dir_fd=above)
            with Descriptor(place):
                yield place, name
        except OSError as error:
            raise OSError(error.errno, error.strerror, os.path.join(self._root, path)) from None


def _parse_state(value: Any) -> LogState:
    """Return the recorded state of a node's log in a JSON value; that of an unread log if the value is not valid."""
    try:
        require_version(value, STATE_VERSION, "state of a log")
        files = {file: check_fields(tuple_of(FileState, known)) for file, known in value["files"].items()}
        state = check_fields(LogState(value["offset"], value["others"], files))
    except PARSE_ERRORS:
        return LogState()
    counts = [state.offset, state.others, *(count for known in files.values() for count in known)]
    return state if min(counts) >= 0 else LogState()
