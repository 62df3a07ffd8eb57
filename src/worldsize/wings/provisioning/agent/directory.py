"""A run's directory on a node's local disk. It exists while an agent of the run is alive on that node.

    BASE/worldsize-UID/          only this user can enter it; -1 to -9 behind its name where others have taken it
        runs/RUN.ATTEMPT/        removed at the end of the run
        runs/RUN.ATTEMPT.lock    each agent of the run on this machine holds a shared lock on it

The kernel releases the lock of a process that dies. A directory whose lock is free is stale, and the next run removes
it.
"""

from __future__ import annotations

import fcntl
import os
import time
from collections.abc import Mapping, Sequence
from contextlib import suppress

from worldsize.errors import StorageError
from worldsize.plan.node_disk import LOCAL_DIR_VARIABLE
from worldsize.trust.directories import make_private_directory, open_private_directory
from worldsize.trust.owners import is_ours

_USUAL = (LOCAL_DIR_VARIABLE, "SLURM_TMPDIR", "TMPDIR")
_FALLBACK = "/tmp"  # nosec B108  # directories created there are checked (trust/directories.py)
_NAMES = 10
_YOUNG = 60.0
"""Seconds for which a new directory is never considered stale."""


_known: dict[str, str] = {}
"""The directories of this user that have been found, by their base directory."""


def base_directory(configured: str, environ: Mapping[str, str]) -> str:
    """Return the directory on the node's local disk in which worldsize's files are kept: from the node's variable
    WORLDSIZE_LOCAL_DIR, else the `configured` one, else the first of the usual places. Raise OSError if it is not a
    directory."""
    asked = environ.get(LOCAL_DIR_VARIABLE) or _expand_variables(configured, environ)
    base = asked or next((environ[name] for name in _USUAL if environ.get(name)), _FALLBACK)
    if not os.path.isdir(base):
        raise NotADirectoryError(20, "no such directory on this node", base)
    return os.path.abspath(base)


def _expand_variables(text: str, environ: Mapping[str, str]) -> str:
    """Return the configured path `text` with `$NAME` and `${NAME}` replaced by the variables in `environ`, the node's
    environment; "" if one of them is not set, or the text is malformed."""
    from string import Template

    try:
        return Template(text).substitute(environ)
    except (KeyError, ValueError):
        return ""


def ensure_own_directory(base: str) -> str:
    """Find this user's directory in `base`, worldsize-UID, or create it, and return its path. If other users have taken
    that name, it is the first of worldsize-UID-1 to -9 that is this user's. If none is, it is the first of these names
    that is free. So all agents of this machine find the same directory.

    Raise PermissionError if other users have taken all names, or could change or replace this user's own directory, and
    this user does not trust them. Raise OSError if it cannot be created.
    """
    if base in _known:
        return _known[base]
    name = os.path.join(base, f"worldsize-{os.getuid()}")
    try:
        return _find_or_make([name, *(f"{name}-{number}" for number in range(1, _NAMES))])
    except StorageError as error:
        place = error.where or name
        trust = f"if you trust every user who can write there: worldsize config trust {place}"
        raise PermissionError(1, f"{error.what} ({trust})", place) from None


def remember_own_directory(configured: str, environ: Mapping[str, str]) -> None:
    """Find this user's directory on the node's disk before the process enters a user namespace, and remember it.

    In the namespace, root and all other users look the same, so the directory could not be checked there. No other user
    can replace it meanwhile. Errors are ignored here: `ensure_own_directory` raises them when the directory is needed.
    """
    with suppress(OSError):
        base = base_directory(configured, environ)
        _known[base] = ensure_own_directory(base)


def _find_or_make(paths: Sequence[str]) -> str:
    """Return the first of the directories `paths` that is this user's, else create the first that is free. Raise
    StorageError or OSError: the error of the first path if other users have taken all of them."""
    missing = []
    refused: StorageError | OSError | None = None
    for path in paths:
        try:
            os.close(open_private_directory(path, make=False))
            return path
        except FileNotFoundError:
            missing.append(path)
        except (StorageError, OSError) as error:
            if not _is_anothers(path):
                raise
            refused = refused or error
    if refused is not None and not missing:
        raise refused
    return make_private_directory(missing[0])


def _is_anothers(path: str) -> bool:
    try:
        return not is_ours(os.lstat(path))
    except OSError:
        return False


class HeldDirectory:
    """A shared lock on a directory. No process removes the directory while any process holds such a lock.

    The directory is created at once. With `keeps` it is not created, and it stays when the last lock is released.
    """

    def __init__(self, path: str, keeps: bool = False) -> None:
        self.path = path
        self._lock = path + ".lock"
        self._keeps = keeps
        os.makedirs(os.path.dirname(path), 0o700, exist_ok=True)
        self._file = _open_locked(self._lock)
        os.utime(self._file)
        if not keeps:
            os.makedirs(path, 0o700, exist_ok=True)

    def release(self) -> None:
        """Release the shared lock on the directory. The last holder removes the directory, unless the object was
        created with `keeps`. Safe to repeat."""
        if self._file >= 0:
            if not self._keeps:
                _remove_if_unheld(self.path, self._lock, self._file)
            os.close(self._file)
            self._file = -1


def hold_run_directory(base: str, run_id: str, attempt: int) -> HeldDirectory:
    """Create and lock the run's directory on this machine's local disk, below `base`, and return the lock. Remove stale
    directories of dead runs next to it.

    Raise OSError if it cannot be created, and PermissionError as `ensure_own_directory`.
    """
    runs = os.path.join(ensure_own_directory(base), "runs")
    held = HeldDirectory(os.path.join(runs, f"{run_id}.{attempt}"))
    remove_stale_directories(runs, _YOUNG)
    return held


def _open_locked(path: str) -> int:
    """Open the lock file at `path`, take a shared lock on it, and return its descriptor. The file is opened again if it
    was removed meanwhile."""
    while True:
        file = os.open(path, os.O_RDWR | os.O_CREAT, 0o600)
        fcntl.flock(file, fcntl.LOCK_SH)
        if _is_at(file, path):
            return file
        os.close(file)


def _is_at(file: int, path: str) -> bool:
    try:
        return os.path.samestat(os.fstat(file), os.stat(path))
    except FileNotFoundError:
        return False


def _remove_if_unheld(path: str, lock: str, file: int) -> bool:
    """Remove the directory `path` and its lock file `lock`, which is open as `file`, if no other process holds the
    lock. Return whether they were removed."""
    try:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        return False
    if not _is_at(file, lock):
        return False
    from shutil import rmtree

    rmtree(path, ignore_errors=True)
    rmtree(path + ".part", ignore_errors=True)
    os.unlink(lock)
    return True


def remove_stale_directories(directory: str, age: float) -> None:
    """Remove those directories in `directory` on the node's disk whose lock files are not locked by any process and
    have not been locked for `age` seconds."""
    before = time.time() - age
    for name in os.listdir(directory):
        lock = os.path.join(directory, name)
        if not name.endswith(".lock"):
            continue
        try:
            if os.stat(lock).st_mtime > before:
                continue
            file = os.open(lock, os.O_RDWR)
        except OSError:
            continue
        try:
            _remove_if_unheld(lock[: -len(".lock")], lock, file)
        finally:
            os.close(file)
