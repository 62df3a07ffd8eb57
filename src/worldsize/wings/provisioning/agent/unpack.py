"""The unpacking of a packed environment while it still arrives: several threads inflate gzip members and write files.

Standard library only: travels inside agent.pyz (Python >= 3.8).
"""

from __future__ import annotations

import hashlib
import json
import os
from collections import deque
from collections.abc import Iterable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor

from worldsize.common.atomic_files import write_all
from worldsize.wings.provisioning.agent.pack_format import (
    BASE,
    DESCRIPTION,
    VERSION,
    TarStream,
    bounded_contents,
    contents,
)
from worldsize.wings.provisioning.agent.relocate import PrefixFile, with_new_prefix

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from worldsize.wings.provisioning.agent.pack_format import Read

_THREADS = 8
_BLOCK = 512
_SMALL = 1 << 20
_FILES_AHEAD = 256
_MODES = 0o755
_LONGEST_DESCRIPTION = 16 << 20
"""The largest size of a description in bytes. A hundred thousand names of files that contain the old path fit in. Once
parsed, it may need many times as much memory."""


class DamagedPack(OSError):
    """An error: the packed environment is damaged, or is not the one that was packed."""

    def __init__(self, what: str) -> None:
        super().__init__(0, what)
        self.strerror = what


def unpack_environment(read: Read, digest: str, target: str, place: str) -> tuple[str, ...]:
    """Unpack a packed environment, whose bytes `read` returns, into the new directory `target`. The paths in its files
    become those of `place`, to which the directory is moved afterwards. Return the names of the files that still
    contain the old path, because the new one is too long.

    Raise DamagedPack if the archive's SHA-256 is not `digest`, or it was not written by worldsize. Raise OSError if a
    file cannot be written.
    """
    os.mkdir(target, 0o700)
    digested = hashlib.sha256()
    with ThreadPoolExecutor(min(_THREADS, os.cpu_count() or 1)) as pool:
        stream = TarStream(contents(read, digested, pool))
        try:
            kept = _MemberWriter(stream, target, place, pool).write()
            stream.drain()
        except (ValueError, KeyError, TypeError) as error:  # KeyError and TypeError come from a damaged description
            raise DamagedPack(f"the packed environment is damaged: {error}") from None
    if digested.hexdigest() != digest:
        raise DamagedPack(
            f"the packed environment is not the one that was packed: its sha256 is {digested.hexdigest()}"
        )
    return kept


def description_of(read: Read) -> dict[str, Any]:
    """Read and return the description of a packed environment (its kind, prefix and version, for example) from the
    first bytes that `read` returns. Raise ValueError if the archive was not written by worldsize, or has another
    version than this worldsize reads."""
    stream = TarStream(bounded_contents(read))
    name, size = _name_and_size(stream.take(_BLOCK))
    if name != DESCRIPTION:
        raise ValueError("it was not made by `worldsize env pack`")
    if size > _LONGEST_DESCRIPTION:
        raise ValueError(f"its description has {size} bytes")
    return _parse_description(stream.take(size))


def _name_and_size(header: bytes) -> tuple[str, int]:
    size = _octal(header[124:135])
    if size < 0:
        raise ValueError("a size in it is negative")
    return header[:100].rstrip(b"\0").decode("utf-8", "surrogateescape"), size


def _parse_description(data: bytes) -> dict[str, Any]:
    try:
        value: Any = json.loads(data)
    except RecursionError:
        raise ValueError("its description is nested too deep") from None
    if not isinstance(value, dict) or not all(isinstance(value.get(key), str) for key in ("kind", "prefix")):
        raise ValueError("its description is damaged")
    if value.get("version") != VERSION:
        raise ValueError(f"it is of version {value.get('version')!r}, and this worldsize reads {VERSION}")
    return dict(value)


class _MemberWriter:
    """A writer of the archive's members in the order of their arrival. Threads of the pool write small files; large
    files are written piece by piece."""

    def __init__(self, stream: TarStream, target: str, place: str, pool: ThreadPoolExecutor) -> None:
        self._stream = stream
        self._target = target
        self._place = place
        self._pool = pool
        self._jobs: deque[Future[None]] = deque()
        self._modes: list[tuple[str, int]] = []
        self._holders: dict[str, PrefixFile] = {}
        self._moves: list[tuple[bytes, bytes]] = []
        self._kept: list[str] = []
        self._links: set[str] = set()
        self._directories: set[str] = {""}

    def write(self) -> tuple[str, ...]:
        """Write all members of the packed environment below the target directory. Return the names of the files that
        still contain the environment's old path."""
        long: dict[bytes, str] = {}
        while True:
            header = self._stream.take(_BLOCK)
            if not header.strip(b"\0"):
                break
            name, size = _name_and_size(header)
            kind = header[156:157]
            if kind in (b"L", b"K"):
                long[kind] = self._body(size).rstrip(b"\0").decode("utf-8", "surrogateescape")
                continue
            name = long.pop(b"L", name)
            link = long.pop(b"K", header[157:257].rstrip(b"\0").decode("utf-8", "surrogateescape"))
            mode = _octal(header[100:107]) & _MODES
            if not self._moves:
                self._read_description(name, self._body(size))
            elif kind == b"5":
                self._make_directory(name[:-1] if name.endswith("/") else name, mode)
            else:
                self._write_member(kind, self._path(name), name, mode, size, link, _octal(header[136:147]))
        self._finish()
        return tuple(self._kept)

    def _read_description(self, name: str, data: bytes) -> None:
        if name != DESCRIPTION:
            raise ValueError("it was not made by `worldsize env pack`")
        description = _parse_description(data)
        self._holders = {path: PrefixFile(path, *rest) for path, *rest in description["holders"]}
        moves = [(description["prefix"], self._place)]
        if description.get("base"):
            moves.append((description["base"], os.path.join(self._place, BASE)))
        self._moves = [(os.fsencode(old), os.fsencode(new)) for old, new in moves]

    def _path(self, name: str, made: bool = True) -> str:
        """Return the path at which the archive's member `name` is written. Raise ValueError if the name is not safe.

        Nothing is written or linked through a symbolic link of the archive, because the archive is verified only after
        it was read to its end. Each name is plain, so that no two names mean the same file. With `made`, the member's
        directory must already exist; no link can replace it while threads still write files below it.
        """
        parts = name.split("/")
        if ".." in parts or not parts[0]:
            raise ValueError(f"a name in it leads outside it: {name}")
        if "." in parts or "" in parts:
            raise ValueError(f"is not a plain name: {name}")
        if self._links and any("/".join(parts[:end]) in self._links for end in range(1, len(parts) + 1)):
            raise ValueError(f"a member of it is below a link: {name}")
        if made and "/".join(parts[:-1]) not in self._directories:
            raise ValueError(f"none of its directories contains {name}")
        return os.path.join(self._target, name)

    def _make_directory(self, name: str, mode: int) -> None:
        path = self._path(name, made=False)
        os.makedirs(path, 0o755, exist_ok=True)
        self._modes.append((path, mode))
        while name and name not in self._directories:
            self._directories.add(name)
            name = name.rpartition("/")[0]

    def _write_member(self, kind: bytes, path: str, name: str, mode: int, size: int, link: str, mtime: int) -> None:
        if kind == b"2":
            os.symlink(link, path)
            self._links.add(name)
        elif kind == b"1":
            self._wait(0)
            os.link(self._path(link), path, follow_symlinks=False)
        elif kind in (b"0", b"\0"):
            holder = self._holders.get(name)
            if size <= _SMALL or holder:
                data = self._body(size)
                self._wait(_FILES_AHEAD)
                self._jobs.append(self._pool.submit(self._write_small, path, data, mode, mtime, holder))
            else:
                _write(path, self._parts(size), mode, mtime)
        else:
            raise ValueError(f"a member of an unknown kind: {name}")

    def _body(self, size: int) -> bytes:
        return self._stream.take(-(-size // _BLOCK) * _BLOCK)[:size]

    def _parts(self, size: int) -> Iterator[bytes]:
        for start in range(0, size, _SMALL):
            yield self._stream.take(min(_SMALL, size - start))
        self._stream.take(-size % _BLOCK)

    def _write_small(self, path: str, data: bytes, mode: int, mtime: int, holder: PrefixFile | None) -> None:
        _write(path, (self._with_new_prefixes(data, holder) if holder else data,), mode, mtime)

    def _with_new_prefixes(self, data: bytes, holder: PrefixFile) -> bytes:
        for old, new in self._moves:
            after = with_new_prefix(data, holder.kind, holder.room, old, new)
            if after is None:
                self._kept.append(holder.path)
            else:
                data = after
        return data

    def _wait(self, most: int) -> None:
        while len(self._jobs) > most:
            self._jobs.popleft().result()

    def _finish(self) -> None:
        self._wait(0)
        for path, mode in reversed(self._modes):
            os.chmod(path, mode | 0o700)


def _write(path: str, parts: Iterable[bytes], mode: int, mtime: int) -> None:
    file = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, mode | 0o200)
    try:
        for part in parts:
            write_all(file, part)
        os.utime(file, (mtime, mtime))
    finally:
        os.close(file)


def _octal(field: bytes) -> int:
    return int(field or b"0", 8)
