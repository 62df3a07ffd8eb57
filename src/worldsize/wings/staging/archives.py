"""Archives that stand for folders: known by their names, unpacked so that nothing lands outside."""

from __future__ import annotations

import os
import stat
from collections.abc import Callable

from worldsize.errors import UsageError
from worldsize.wings.staging.confined_directory import BLOCK, ConfinedDirectory, UnsafeEntry
from worldsize.wings.staging.limits import SizeLimit
from worldsize.wings.staging.tar import unpack_tar

_TARS = (".tar", ".tar.gz", ".tgz", ".tar.bz2", ".tbz2", ".tar.xz", ".txz")
SUFFIXES = (".zip", *_TARS)


def is_archive(name: str) -> bool:
    return name.lower().endswith(SUFFIXES)


def unpack_archive(path: str, name: str, target: str, shown: str, limit: SizeLimit | None = None) -> None:
    """What the file `path`, called `name`, holds, into the new directory `target`. UsageError, at `shown`, for one that
    is damaged or would write elsewhere, and what `limit` says of more than that; OSError of the disk."""
    os.mkdir(target, 0o700)
    count = limit.add if limit else _ignore_count
    try:
        (_unzip if name.lower().endswith(".zip") else _untar)(path, os.path.abspath(target), count)
    except UnsafeEntry as error:
        raise UsageError(f"{error.strerror}: {error.filename}", shown, "do not trust it") from None
    except OSError as error:
        if error.errno is not None:
            raise
        raise _damaged_archive_error(error, shown) from None
    except _damage_errors() as error:
        raise _damaged_archive_error(error, shown) from None


def _damaged_archive_error(error: Exception, shown: str) -> UsageError:
    return UsageError(f"is no archive that can be read: {error}", shown, "say type: uri_file")


def _ignore_count(_: int) -> None:
    pass


def _damage_errors() -> tuple[type[Exception], ...]:
    """What is raised for archives that are none; besides errors of the system without a number, by gzip and bz2."""
    from lzma import LZMAError
    from tarfile import TarError
    from zipfile import BadZipFile
    from zlib import error

    return (TarError, EOFError, BadZipFile, LZMAError, error, RuntimeError, ValueError, OverflowError)


def _untar(path: str, target: str, count: Callable[[int], None]) -> None:
    import tarfile

    from worldsize.wings.staging.tar import BoundedMember

    with tarfile.open(path, "r:*", tarinfo=BoundedMember) as archive:
        unpack_tar(archive, target, count)


def _unzip(path: str, target: str, count: Callable[[int], None]) -> None:
    """Links are unpacked as the text that they are stored as."""
    from zipfile import ZipFile

    place = ConfinedDirectory(target, count)
    try:
        with ZipFile(path) as archive:
            for member in archive.infolist():
                count(BLOCK)
                if member.is_dir():
                    place.make_directory(member.filename)
                    continue
                mode = member.external_attr >> 16
                executable = stat.S_ISREG(mode) and mode & 0o111
                with archive.open(member) as source:
                    place.write_file(member.filename, source, 0o755 if executable else None)
    finally:
        place.close()
