"""Archives that represent folders: they are recognised by their names, and unpacked so that no file is written outside
of the target."""

from __future__ import annotations

import os
import stat
from collections.abc import Callable
from typing import Any

from worldsize.errors import UsageError
from worldsize.wings.staging.confined_directory import BLOCK, ConfinedDirectory, UnsafeEntry
from worldsize.wings.staging.limits import SizeLimit

_TARS = (".tar", ".tar.gz", ".tgz", ".tar.bz2", ".tbz2", ".tar.xz", ".txz")
SUFFIXES = (".zip", *_TARS)
_LARGEST_HEADER = 1 << 20


def is_archive(name: str) -> bool:
    return name.lower().endswith(SUFFIXES)


def unpack_archive(path: str, name: str, target: str, shown: str, limit: SizeLimit | None = None) -> None:
    """Unpack the zip or tar file `path`, whose name is `name`, into the new directory `target`. Raise UsageError,
    located at `shown`, if the archive is damaged or would write outside of `target`. Raise the error of `limit` if it
    contains more bytes. Raise OSError if a file cannot be written.

    Owners are not restored, nor are set-uid bits and permissions for others to write; devices are left out. No member
    may be below a link, and links may only lead to files below `target`.
    """
    os.mkdir(target, 0o700)
    count = (limit or SizeLimit(None, shown)).add
    place = ConfinedDirectory(os.path.abspath(target), count)
    try:
        (_unzip if name.lower().endswith(".zip") else _untar)(path, place, count)
    except UnsafeEntry as error:
        raise UsageError(f"{error.strerror}: {error.filename}", shown, "do not trust it") from None
    except _damage_errors() as error:
        if isinstance(error, OSError) and error.errno is not None:
            raise
        raise UsageError(f"is not a readable archive: {error}", shown, "set type: uri_file") from None
    finally:
        place.close()


def _damage_errors() -> tuple[type[Exception], ...]:
    """Return the classes of the exceptions that Python's readers of zip and tar files raise for damaged archives. gzip
    and bz2 raise OSErrors without an errno."""
    from lzma import LZMAError
    from tarfile import TarError
    from zipfile import BadZipFile
    from zlib import error

    return (OSError, TarError, EOFError, BadZipFile, LZMAError, error, RuntimeError, ValueError, OverflowError)


def _untar(path: str, place: ConfinedDirectory, count: Callable[[int], None]) -> None:
    import tarfile

    with tarfile.open(path, "r:*", tarinfo=_bounded_member()) as archive:
        for member in archive:
            count(BLOCK)
            if member.isdir():
                place.make_directory(member.name, member.mode, member.mtime)
            elif member.issym():
                place.make_link(member.name, member.linkname)
            elif member.islnk():
                place.make_hard_link(member.name, member.linkname)
            elif member.isfile():
                content = archive.extractfile(member)
                assert content is not None
                place.write_file(member.name, content, member.mode, member.mtime)
    place.finish()


def _bounded_member() -> Any:
    """Return a subclass of TarInfo for the members of untrusted tar files. tarfile reads names and attributes before a
    member into memory without a limit; with this class, more than a megabyte of them is a ReadError."""
    import tarfile as tar

    headers = (tar.XHDTYPE, tar.XGLTYPE, tar.SOLARIS_XHDTYPE, tar.GNUTYPE_LONGNAME, tar.GNUTYPE_LONGLINK)

    class BoundedMember(tar.TarInfo):
        def _proc_member(self, archive: tar.TarFile) -> Any:
            if self.type in headers and self.size > _LARGEST_HEADER:
                raise tar.ReadError(f"a header of {self.size} bytes")
            return super()._proc_member(archive)  # type: ignore[misc]

    return BoundedMember


def _unzip(path: str, place: ConfinedDirectory, count: Callable[[int], None]) -> None:
    """Unpack the zip file `path` into the confined directory `place`; `count` is called with 4096 bytes for each
    member. Links become files that contain the text with which they are stored."""
    from zipfile import ZipFile

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
