"""Traversal of paths that is safe against other users' links. This user's links and root's are followed. Another user's
link could lead anywhere, and elsewhere a moment later. Directories are opened one after the other.

Standard library only: travels inside agent.pyz (Python >= 3.8).
"""

from __future__ import annotations

import os
import stat

from worldsize.common.atomic_files import Descriptor, printable_text
from worldsize.errors import StorageError
from worldsize.trust.owners import is_believed, is_unknown, user_name

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

MOST_LINKS = 40
"""The most links that are followed in one path, as in the kernel."""

THROUGH = getattr(os, "O_PATH", os.O_RDONLY) | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
"""Flags for opening a directory in which names are only looked up."""


def with_parents(directory: str) -> Iterator[str]:
    """Yield the absolute path `directory`, then the directories above it, the nearest first, up to the root."""
    while directory != os.path.dirname(directory):
        yield directory
        directory = os.path.dirname(directory)
    yield directory


def open_below(path: str, top: int | None = None) -> int:
    """Open the directory `path` for looking up names in it, and return its descriptor. `path` is below the directory of
    the descriptor `top`, or absolute. None of its components may be a link, since a directory may have been replaced by
    one a moment ago. Raise OSError if that fails."""
    place = os.open(os.sep, THROUGH) if top is None else os.dup(top)
    for name in filter(None, path.split(os.sep)):
        with Descriptor(place) as above:
            place = os.open(name, THROUGH, dir_fd=above)
    return place


def follow_links(
    path: str, enter: Callable[[str], None] | None = None, also: int | None = None, strict: bool = False
) -> str:
    """Return the real path of `path`. Links are followed if this user, root or the user `also` made them. Components
    that do not exist stay as they are named.

    `enter` is called with each directory before a name in it is looked up, and may raise. Raise StorageError for
    another user's link; with `strict` also for one in / whose owner this user namespace does not know.
    """
    left = os.path.join(os.getcwd(), path).split(os.sep)[::-1]
    real, links = os.sep, 0
    while left:
        name = left.pop()
        if name in ("", "."):
            continue
        if name == "..":
            real = os.path.dirname(real)
            continue
        child = os.path.join(real, name)
        if enter is not None:
            enter(real)
        try:
            status, target = read_link(child)
        except FileNotFoundError:
            return os.path.normpath(os.path.join(child, *left[::-1]))
        if not stat.S_ISLNK(status.st_mode):
            real = child
            continue
        if status.st_uid != also:
            require_link(child, status, strict)
        links += 1
        if links > MOST_LINKS:
            raise StorageError("too many links", path)
        if os.path.isabs(target):
            real = os.sep
        left += target.split(os.sep)[::-1]
    return real


def require_link(path: str, status: os.stat_result, strict: bool = False) -> None:
    """Check that the link `path` was made by this user or root, by its own status (lstat). Raise StorageError if it was
    not. A link in / whose owner this user namespace does not know counts as root's, unless `strict`."""
    is_roots = not strict and os.path.dirname(path) == os.sep and is_unknown(status.st_uid)
    if not is_believed(status.st_uid) and not is_roots:
        raise unsafe_directory_error(path, f"the link belongs to {user_name(status.st_uid)}")


def unsafe_directory_error(path: str, danger: str, what: str = "its content cannot be trusted") -> StorageError:
    """Return the StorageError for the directory `path`, which other users can change. `danger` states how, `what` the
    consequence."""
    hint = (
        "name a directory of your own, or close it to other users; or, if you trust every user who can write there: "
        "worldsize config trust %s"
    )
    return StorageError(f"{what}: {danger}", printable_text(path), hint % printable_text(path))


def read_link(name: str, directory: int | None = None) -> tuple[os.stat_result, str]:
    """Return the status of the entry `name` and, if it is a link, its target, else "". `name` is relative to the
    directory descriptor `directory` if that is given. Both results belong to the same entry, even if it is replaced
    meanwhile. Raise OSError if it cannot be opened."""
    with Descriptor(os.open(name, os.O_PATH | os.O_NOFOLLOW | os.O_CLOEXEC, dir_fd=directory)) as found:
        status = os.fstat(found)
        return status, os.readlink("", dir_fd=found) if stat.S_ISLNK(status.st_mode) else ""
