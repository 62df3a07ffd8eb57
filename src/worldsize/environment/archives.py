"""Archives that stand for folders: known by their names, unpacked so that nothing lands outside."""

from __future__ import annotations

import os
import stat
from collections.abc import Callable

from worldsize.agent.untar import BLOCK, Unsafe, unpack
from worldsize.environment.limits import Limit
from worldsize.errors import UsageError

_CHUNK = 1 << 20
_TARS = (".tar", ".tar.gz", ".tgz", ".tar.bz2", ".tbz2", ".tar.xz", ".txz")
SUFFIXES = (".zip", *_TARS)


def is_archive(name: str) -> bool:
    return name.lower().endswith(SUFFIXES)


def unpack_archive(path: str, name: str, target: str, shown: str, limit: Limit | None = None) -> None:
    """What the file `path`, called `name`, holds, into the new directory `target`. UsageError, at `shown`, for one that
    is damaged or would write elsewhere, and what `limit` says of more than that; OSError of the disk."""
    os.mkdir(target, 0o700)
    count = limit.add if limit else _nothing
    try:
        (_unzip if name.lower().endswith(".zip") else _untar)(path, os.path.abspath(target), count)
    except Unsafe as error:
        raise UsageError("%s: %s" % (error.strerror, error.filename), shown, "do not trust it") from None
    except _damage() as error:
        raise UsageError("is no archive that can be read: %s" % error, shown, "say type: uri_file") from None


def _nothing(_: int) -> None:
    pass


def _damage() -> tuple[type[Exception], ...]:
    from lzma import LZMAError
    from tarfile import TarError
    from zipfile import BadZipFile
    from zlib import error

    return (TarError, EOFError, BadZipFile, LZMAError, error, NotImplementedError, RuntimeError)


def _untar(path: str, target: str, count: Callable[[int], None]) -> None:
    import tarfile

    with tarfile.open(path, "r:*") as archive:
        unpack(archive, target, trusted=False, count=count)


def _unzip(path: str, target: str, count: Callable[[int], None]) -> None:
    """Links are unpacked as the text that they are stored as."""
    from zipfile import ZipFile

    with ZipFile(path) as archive:
        for member in archive.infolist():
            count(BLOCK)
            place = os.path.normpath(os.path.join(target, member.filename))
            if os.path.isabs(member.filename) or not (place + os.sep).startswith(target + os.sep):
                raise Unsafe(1, "a name in it leads out of it", member.filename)
            if member.is_dir():
                os.makedirs(place, exist_ok=True)
                continue
            os.makedirs(os.path.dirname(place), exist_ok=True)
            with archive.open(member) as source, open(place, "wb") as file:
                while data := source.read(_CHUNK):
                    count(len(data))
                    file.write(data)
            mode = member.external_attr >> 16
            if stat.S_ISREG(mode) and mode & 0o111:
                os.chmod(place, 0o755)  # nosec B103  # a program of an archive; its directory is 0700
