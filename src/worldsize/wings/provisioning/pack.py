"""An environment as one file: all below its prefix, and the Python of a virtual environment where that must travel too.

The same content gives the same bytes. The files that hold the prefix's path are listed: nodes put their own there.
"""

from __future__ import annotations

import hashlib
import io
import json
import os
import stat
import tarfile
from collections import deque
from collections.abc import Callable, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Any

from worldsize.common.atomic_files import storage_error, try_unlink
from worldsize.environment.existing import DESCRIPTION as PREFIX_DESCRIPTION
from worldsize.environment.existing import ExistingEnvironment
from worldsize.service.request import EnvironmentPack
from worldsize.trust.directories import make_directories
from worldsize.wings.provisioning.agent.pack_format import BASE, DESCRIPTION, PIECE, VERSION, make_member
from worldsize.wings.provisioning.agent.relocate import PrefixFile
from worldsize.wings.provisioning.pack_contents import (
    EXCLUDED_NAMES,
    PackEntry,
    base_entries,
    base_installation,
    entries_below,
    find_prefix_file,
    portability_notices,
    with_conda_padding,
)

COMPRESSION_LEVEL = 3
SUFFIX = ".tar.gz"
_MAX_PENDING = 8


def pack(
    found: ExistingEnvironment, target: str, tick: Callable[[int, int], None] = lambda *_: None
) -> EnvironmentPack:
    """The environment in the new file `target`, whole or not at all. UsageError for what cannot be packed,
    StorageError for the disk. `tick` is called with the bytes that are done and those of all."""
    base = base_installation(found)
    entries = [*entries_below(found.prefix, "", EXCLUDED_NAMES if found.kind == "conda" else frozenset())]
    if base:
        entries += base_entries(base)
    entries.sort(key=lambda entry: entry.name)
    total = sum(entry.status.st_size for entry in entries if entry.link is None)
    with ThreadPoolExecutor(os.cpu_count()) as pool:
        holders = list(filter(None, pool.map(lambda entry: find_prefix_file(entry, found, base), entries)))
        description = _description(found, base, entries, with_conda_padding(found, holders), total)
        part = f"{target}.{os.urandom(6).hex()}.part"
        try:
            digest, size = _write(part, entries, description, total, pool, tick, found, base)
            os.replace(part, target)
        except OSError as error:
            try_unlink(part)
            raise storage_error(error, error.filename or target) from None
        except BaseException:
            try_unlink(part)
            raise
    return EnvironmentPack(target, digest, size, total, len(entries), tuple(portability_notices(found, base)))


def _description(
    found: ExistingEnvironment,
    base: str | None,
    entries: Sequence[PackEntry],
    holders: Sequence[PrefixFile],
    total: int,
) -> bytes:
    value = {
        "version": VERSION,
        "kind": found.kind,
        "prefix": found.prefix,
        "base": base,
        "python": list(found.version) if found.version else None,
        "files": len(entries),
        "bytes": total,
        "holders": holders,
    }
    return json.dumps(value, sort_keys=True, separators=(",", ":")).encode()


def _write(
    path: str,
    entries: Sequence[PackEntry],
    description: bytes,
    total: int,
    pool: ThreadPoolExecutor,
    tick: Callable[[int, int], None],
    found: ExistingEnvironment,
    base: str | None,
) -> tuple[str, int]:
    """The file's sha256 and size."""
    make_directories(os.path.dirname(os.path.abspath(path)))
    digest = hashlib.sha256()
    with open(os.open(path, os.O_RDWR | os.O_CREAT | os.O_EXCL, 0o600), "wb") as file:
        pieces = _Pieces(file, digest, pool)
        try:
            archive = tarfile.open(fileobj=pieces, mode="w|", format=tarfile.GNU_FORMAT, bufsize=tarfile.RECORDSIZE)
            info = tarfile.TarInfo(DESCRIPTION)
            info.size = len(description)
            archive.addfile(info, io.BytesIO(description))
            seen: dict[tuple[int, int], str] = {}
            done = 0
            for entry in entries:
                done += _add(archive, entry, seen, found, base)
                tick(done, total)
            archive.close()
            pieces.finish()
        except BaseException:
            pieces.give_up()
            raise
        size = file.tell()
    return digest.hexdigest(), size


def _add(
    archive: tarfile.TarFile,
    entry: PackEntry,
    seen: dict[tuple[int, int], str],
    found: ExistingEnvironment,
    base: str | None,
) -> int:
    """How many bytes of content that were."""
    info = tarfile.TarInfo(entry.name)
    used = entry.name == PREFIX_DESCRIPTION  # whose time says when the environment was last used
    info.mtime = 0 if used else int(entry.status.st_mtime)
    info.mode = stat.S_IMODE(entry.status.st_mode) & 0o755
    if entry.link is not None:
        info.type, info.linkname = tarfile.SYMTYPE, _link_target(entry, found, base)
        archive.addfile(info)
        return 0
    if stat.S_ISDIR(entry.status.st_mode):
        info.type = tarfile.DIRTYPE
        archive.addfile(info)
        return 0
    key = (entry.status.st_dev, entry.status.st_ino)
    if entry.status.st_nlink > 1 and key in seen:
        info.type, info.linkname = tarfile.LNKTYPE, seen[key]
        archive.addfile(info)
        return 0
    seen[key] = entry.name
    with open(entry.path, "rb") as file:
        info.size = os.fstat(file.fileno()).st_size
        archive.addfile(info, file)
    return info.size


def _link_target(entry: PackEntry, found: ExistingEnvironment, base: str | None) -> str:
    """Links into the environment, or into the Python that travels with it, are made relative."""
    assert entry.link is not None
    target = os.path.normpath(os.path.join(os.path.dirname(entry.path), entry.link))
    for old, new in ((found.prefix, ""), *(((base, BASE),) if base else ())):
        if target == old or target.startswith(old + os.sep):
            inner = os.path.join(new, os.path.relpath(target, old))
            return os.path.relpath(inner, os.path.dirname(entry.name) or ".")
    return entry.link


class _Pieces(io.RawIOBase):
    """Cuts what is written into gzip members, which several threads compress."""

    def __init__(self, file: Any, digest: Any, pool: ThreadPoolExecutor) -> None:
        self._file = file
        self._digest = digest
        self._pool = pool
        self._piece = bytearray()
        self._left: deque[Future[bytes]] = deque()
        self._given_up = False

    def give_up(self) -> None:
        """What is written from now on goes nowhere: tarfile writes an end as it is collected, whatever became of it."""
        self._given_up = True

    def write(self, data: Any) -> int:
        if self._given_up:
            return len(data)
        self._piece += data
        while len(self._piece) >= PIECE:
            self._begin(bytes(self._piece[:PIECE]))
            del self._piece[:PIECE]
        return len(data)

    def finish(self) -> None:
        if self._piece:
            self._begin(bytes(self._piece))
        while self._left:
            self._end()

    def _begin(self, data: bytes) -> None:
        self._left.append(self._pool.submit(make_member, data, COMPRESSION_LEVEL))
        if len(self._left) > _MAX_PENDING:
            self._end()

    def _end(self) -> None:
        whole = self._left.popleft().result()
        self._digest.update(whole)
        self._file.write(whole)
