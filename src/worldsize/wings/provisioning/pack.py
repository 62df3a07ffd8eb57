"""The packing of an environment into one file: all files below its prefix, and the Python installation of a virtual
environment if it is needed.

The same content results in the same bytes. The archive lists the files that contain the prefix's path: nodes replace it
with their own.
"""

from __future__ import annotations

import hashlib
import io
import json
import os
import stat
import tarfile
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import IO

from worldsize.common.atomic_files import storage_error, try_unlink
from worldsize.environment.existing import DESCRIPTION as PREFIX_DESCRIPTION
from worldsize.environment.existing import ExistingEnvironment
from worldsize.service.request import EnvironmentPack
from worldsize.trust.directories import make_directories
from worldsize.wings.provisioning.agent.map_ahead import map_ahead
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

SUFFIX = ".tar.gz"
_MAX_PENDING = 8
_CHUNK = 1 << 20


def pack(
    found: ExistingEnvironment, target: str, tick: Callable[[int, int], None] = lambda *_: None
) -> EnvironmentPack:
    """Pack the environment `found` into the file `target`, which is written completely or not at all. Return the
    EnvironmentPack that describes the file. Raise UsageError if the environment cannot be packed, StorageError if the
    file cannot be written. `tick` is called with the bytes that are packed so far and the total."""
    base = base_installation(found)
    places = {found.prefix: "", **({base: BASE} if base else {})}
    entries = [*entries_below(found.prefix, "", EXCLUDED_NAMES if found.kind == "conda" else frozenset())]
    if base:
        entries += base_entries(base)
    entries.sort(key=lambda entry: entry.name)
    total = sum(entry.status.st_size for entry in entries if entry.link is None)
    with ThreadPoolExecutor(os.cpu_count()) as pool:
        holders = list(filter(None, pool.map(lambda entry: find_prefix_file(entry, places), entries)))
        description = _description(found, base, entries, with_conda_padding(found, holders), total)
        part = f"{target}.{os.urandom(6).hex()}.part"
        try:
            digest, size = _write(part, _tar(description, entries, places, lambda done: tick(done, total)), pool)
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


def _tar(
    description: bytes, entries: Sequence[PackEntry], places: Mapping[str, str], tick: Callable[[int], None]
) -> Iterator[bytes]:
    """Yield the parts of a tar file that contains `description` as its first member, and then `entries`. `places` maps
    prefixes to their directories in the archive. `tick` is called with the bytes packed so far."""
    info = tarfile.TarInfo(DESCRIPTION)
    info.size = len(description)
    yield info.tobuf(tarfile.GNU_FORMAT)
    yield from _content(io.BytesIO(description), info.size)
    known: dict[tuple[int, int], str] = {}
    done = 0
    for entry in entries:
        info = _member(entry, known, places)
        if info.isreg():
            with open(entry.path, "rb") as file:
                info.size = os.fstat(file.fileno()).st_size
                yield info.tobuf(tarfile.GNU_FORMAT)
                yield from _content(file, info.size)
        else:
            yield info.tobuf(tarfile.GNU_FORMAT)
        done += info.size
        tick(done)
    yield bytes(2 * tarfile.BLOCKSIZE)


def _member(entry: PackEntry, known: dict[tuple[int, int], str], places: Mapping[str, str]) -> tarfile.TarInfo:
    """Return the tar header of a pack's entry. `known` maps files (device and inode) to the names of the members that
    contain them: another name of such a file becomes a hard link. A new file is added to `known`."""
    info = tarfile.TarInfo(entry.name)
    used = entry.name == PREFIX_DESCRIPTION  # its modification time records when the environment was last used
    info.mtime = 0 if used else int(entry.status.st_mtime)
    info.mode = stat.S_IMODE(entry.status.st_mode) & 0o755
    file = (entry.status.st_dev, entry.status.st_ino)
    if entry.link is not None:
        info.type, info.linkname = tarfile.SYMTYPE, _link_target(entry, entry.link, places)
    elif stat.S_ISDIR(entry.status.st_mode):
        info.type = tarfile.DIRTYPE
    elif entry.status.st_nlink > 1 and file in known:
        info.type, info.linkname = tarfile.LNKTYPE, known[file]
    else:
        known[file] = entry.name
    return info


def _content(file: IO[bytes], size: int) -> Iterator[bytes]:
    left = size
    while left:
        data = file.read(min(left, _CHUNK))
        if not data:
            raise OSError("a file was changed while it was packed")
        yield data
        left -= len(data)
    yield bytes(-size % tarfile.BLOCKSIZE)


def _link_target(entry: PackEntry, link: str, places: Mapping[str, str]) -> str:
    """Return the target of the symbolic link `entry` for the archive; `link` is its present target. The result is
    relative if the link leads into the environment, or into the Python installation that is packed with it (`places`);
    otherwise it is `link`."""
    target = os.path.normpath(os.path.join(os.path.dirname(entry.path), link))
    for old, new in places.items():
        if target == old or target.startswith(old + os.sep):
            inner = os.path.join(new, os.path.relpath(target, old))
            return os.path.relpath(inner, os.path.dirname(entry.name) or ".")
    return link


def _write(path: str, archive: Iterable[bytes], pool: ThreadPoolExecutor) -> tuple[str, int]:
    """Write the tar file `archive`, given in parts, to the new file `path`, cut into gzip members that the threads of
    `pool` compress. Return the written file's SHA-256 and size in bytes."""
    make_directories(os.path.dirname(os.path.abspath(path)))
    digest = hashlib.sha256()
    with open(os.open(path, os.O_RDWR | os.O_CREAT | os.O_EXCL, 0o600), "wb") as file:
        for member in map_ahead(pool, make_member, _pieces(archive), _MAX_PENDING):
            digest.update(member)
            file.write(member)
        return digest.hexdigest(), file.tell()


def _pieces(archive: Iterable[bytes]) -> Iterator[bytes]:
    piece = bytearray()
    for data in archive:
        piece += data
        while len(piece) >= PIECE:
            yield bytes(piece[:PIECE])
            del piece[:PIECE]
    if piece:
        yield bytes(piece)
