"""A directory of this user's with all that is in it.

Standard library only: travels inside agent.pyz (Python >= 3.8).
"""

from __future__ import annotations

import os
import stat

from worldsize.common.atomic_files import Descriptor
from worldsize.errors import StorageError
from worldsize.trust.directories import real_path
from worldsize.trust.owners import is_ours, user_name

_FLAGS = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC


def remove_tree(path: str) -> None:
    """Remove a directory of this user's with all that is in it, read-only directories too; links are not followed.
    Raises StorageError where it is another's; OSError."""
    import shutil

    with Descriptor(os.open(path, _FLAGS)) as directory:
        status = os.fstat(directory)
        if not is_ours(status):
            raise StorageError(f"not removed: it belongs to {user_name(status.st_uid)}", path)
        os.fchmod(directory, 0o700)
        for _, names, _, within in os.fwalk(".", dir_fd=directory):
            for name in names:
                inner = os.stat(name, dir_fd=within, follow_symlinks=False)
                if stat.S_ISDIR(inner.st_mode) and is_ours(inner) and inner.st_mode & 0o700 != 0o700:
                    os.chmod(name, 0o700, dir_fd=within)
    shutil.rmtree(path)


def path_within(root: str, path: str) -> str:
    """Where `path` leads, below `root`, a directory of this user's alone: nobody else can exchange it afterwards.

    Raises StorageError where a link leads out of `root`, or is another user's; OSError.
    """
    place = real_path(path, check_parents=False)
    if not place.startswith(os.path.realpath(root) + os.sep):
        raise StorageError(f"it leads outside {root}", path)
    return place
