"""Functions for a directory of this user with everything in it.

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
    """Remove the directory `path` of this user with everything in it, including read-only directories. Links are not
    followed. Raise StorageError if it belongs to another user, OSError if it cannot be removed."""
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
    """Return the real path of `path`, which must be below `root`, a private directory of this user, so that no other
    user can replace the result afterwards.

    Raise StorageError if a link leads out of `root`, or is another user's; OSError.
    """
    place = real_path(path, check_parents=False)
    if not place.startswith(os.path.realpath(root) + os.sep):
        raise StorageError(f"it leads outside {root}", path)
    return place
