"""Archives, unpacked so that nothing lands outside of where they are to go."""

from __future__ import annotations

import tarfile
from collections.abc import Callable

from worldsize.wings.staging.confined_directory import BLOCK, ConfinedDirectory

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

_LARGEST_HEADER = 1 << 20
_HEADERS = (
    *(tarfile.XHDTYPE, tarfile.XGLTYPE, tarfile.SOLARIS_XHDTYPE),
    *(tarfile.GNUTYPE_LONGNAME, tarfile.GNUTYPE_LONGLINK),
)


class BoundedMember(tarfile.TarInfo):
    """To open archives of others with: names and attributes before a member are read into memory, whatever their size.
    ReadError for more than a megabyte of them."""

    def _proc_member(self, archive: tarfile.TarFile) -> Any:
        if self.type in _HEADERS and self.size > _LARGEST_HEADER:
            raise tarfile.ReadError(f"a header of {self.size} bytes")
        return super()._proc_member(archive)  # type: ignore[misc]


def unpack_tar(archive: tarfile.TarFile, target: str, count: Callable[[int], None]) -> None:
    """All members into the directory `target`, which exists; `count` is told of bytes before they are written, and may
    raise.

    Owners are not restored, nor are set-uid bits and permissions for others to write; devices are left out. No member
    may be below a link, and links lead to what lies below `target` alone. Raises UnsafeEntry, OSError,
    tarfile.TarError, EOFError, and ValueError or OverflowError for what no file can be.
    """
    place = ConfinedDirectory(target, count)
    try:
        for member in archive:
            count(BLOCK)
            _unpack_member(archive, member, place)
        place.finish()
    finally:
        place.close()


def _unpack_member(archive: tarfile.TarFile, member: tarfile.TarInfo, place: ConfinedDirectory) -> None:
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
