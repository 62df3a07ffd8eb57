"""Archives, unpacked so that nothing lands outside of where it is to go.

Standard library only: travels inside agent.pyz (Python >= 3.8).
"""

from __future__ import annotations

import os
import tarfile
from collections.abc import Callable

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import IO

_CHUNK = 1 << 20
BLOCK = 4096
"""What a member counts for besides its content, as it takes that on a disk: many empty ones fill it, too."""


class Unsafe(OSError):
    """A member's name, or what a link in it points to, leads elsewhere."""


def unpack(archive: tarfile.TarFile, target: str, trusted: bool, count: Callable[[int], None] = lambda _: None) -> None:
    """All members into the directory `target`, which exists; `count` is told of bytes before they are written, and may
    raise.

    Owners are not restored, and devices are left out. `trusted`: links may point anywhere; otherwise to what lies
    below `target` alone. Raises Unsafe, OSError, tarfile.TarError, EOFError.
    """
    made: set[str] = set()
    directories = []
    for member in archive:
        count(BLOCK)
        path = _place(target, member.name, trusted)
        parent = os.path.dirname(path)
        if parent not in made:
            os.makedirs(parent, 0o755, exist_ok=True)
            made.add(parent)
        if member.isdir():
            os.makedirs(path, 0o755, exist_ok=True)
            directories.append((path, member.mode, member.mtime))
        elif member.issym():
            if not trusted:
                _check_link(target, path, member)
            _fresh(path)
            os.symlink(member.linkname, path)
        elif member.islnk():
            source = _place(target, member.linkname, trusted)
            _fresh(path)
            os.link(source, path, follow_symlinks=False)
        elif member.isfile():
            _fresh(path)
            _write(archive, member, path, count)
    for path, mode, mtime in reversed(directories):
        os.chmod(path, mode & 0o777 | 0o700)
        os.utime(path, (mtime, mtime))


def _place(target: str, name: str, trusted: bool) -> str:
    path = os.path.normpath(os.path.join(target, name))
    inside = path == target or path.startswith(target + os.sep)
    if inside and not trusted:
        real, top = os.path.realpath(path), os.path.realpath(target)
        inside = real == top or real.startswith(top + os.sep)
    if os.path.isabs(name) or not inside:
        raise Unsafe(1, "a name in it leads out of it", name)
    return path


def _check_link(target: str, path: str, member: tarfile.TarInfo) -> None:
    """That it leads to what lies below `target`, whatever other links come before or after it: it may go up at its
    beginning alone, from where it really is, and not above the top."""
    parts = member.linkname.split("/")
    up = next((number for number, part in enumerate(parts) if part not in ("..", ".", "")), len(parts))
    place, top = os.path.realpath(os.path.dirname(path)), os.path.realpath(target)
    for _ in range(parts[:up].count("..")):
        place = os.path.dirname(place)
    inside = place == top or place.startswith(top + os.sep)
    if os.path.isabs(member.linkname) or ".." in parts[up:] or not inside:
        raise Unsafe(1, "a link in it leads out of it, or could", member.name)


def _fresh(path: str) -> None:
    """What an earlier member of the same name has left is not written through."""
    try:
        os.unlink(path)
    except FileNotFoundError:
        pass


def _write(archive: tarfile.TarFile, member: tarfile.TarInfo, path: str, count: Callable[[int], None]) -> None:
    source = archive.extractfile(member)
    assert source is not None
    mode = member.mode & 0o777 | 0o200
    file = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, mode)
    try:
        _pour(source, file, count)
        os.fchmod(file, mode)
        os.utime(file, (member.mtime, member.mtime))
    finally:
        os.close(file)


def _pour(source: IO[bytes], file: int, count: Callable[[int], None]) -> None:
    while True:
        data = source.read(_CHUNK)
        if not data:
            return
        count(len(data))
        view = memoryview(data)
        while view:
            view = view[os.write(file, view) :]
