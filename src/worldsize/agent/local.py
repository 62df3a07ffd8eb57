"""The run's own directory on a node's disk: made where it is safe, kept as long as an agent of the run lives there.

    BASE/worldsize-UID/          of this user alone
        runs/RUN.ATTEMPT/        removed at the end
        runs/RUN.ATTEMPT.lock    held, shared, by each agent of the run on this machine

The kernel drops the lock of whoever dies, so a directory whose lock is free belongs to nobody: the next run removes it.
"""

from __future__ import annotations

import fcntl
import os
import time
from collections.abc import Mapping

from worldsize.errors import StorageError
from worldsize.plan.local import VARIABLE
from worldsize.trust.directories import private_directory

_USUAL = (VARIABLE, "SLURM_TMPDIR", "TMPDIR")
_FALLBACK = "/tmp"
_YOUNG = 60.0
"""Seconds for which nobody takes what was just made for something that was left."""


def base_directory(configured: str, environ: Mapping[str, str]) -> str:
    """What the node says, else what is configured, else the usual places. OSError for what is no directory."""
    asked = environ.get(VARIABLE) or _expanded(configured, environ)
    base = asked or next((environ[name] for name in _USUAL if environ.get(name)), _FALLBACK)
    if not os.path.isdir(base):
        raise NotADirectoryError(20, "no such directory on this node", base)
    return os.path.abspath(base)


def _expanded(text: str, environ: Mapping[str, str]) -> str:
    """`$NAME` and `${NAME}` as the node has them; "" where it lacks one."""
    from string import Template

    try:
        return Template(text).substitute(environ)
    except (KeyError, ValueError):
        return ""


def own_directory(base: str) -> str:
    """`base`/worldsize-UID. PermissionError where somebody else has made it, or could change it."""
    path = os.path.join(base, "worldsize-%d" % os.getuid())
    try:
        return private_directory(path)
    except StorageError as error:
        raise PermissionError(1, error.what, path) from None


class Held:
    """A directory that is not removed for as long as somebody holds it; it exists from the start, unless it `keeps`."""

    def __init__(self, path: str, keeps: bool = False) -> None:
        self.path = path
        self._lock = path + ".lock"
        self._keeps = keeps
        os.makedirs(os.path.dirname(path), 0o700, exist_ok=True)
        self._file = _locked(self._lock)
        os.utime(self._file)
        if not keeps:
            os.makedirs(path, 0o700, exist_ok=True)

    def release(self) -> None:
        """The last one to do so removes the directory, unless it keeps. Harmless when repeated."""
        if self._file >= 0:
            if not self._keeps:
                _remove_unheld(self.path, self._lock, self._file)
            os.close(self._file)
            self._file = -1


def run_directory(base: str, run_id: str, attempt: int) -> Held:
    """The run's own on this machine; what dead runs have left beside it is removed. OSError where none can be made."""
    runs = os.path.join(own_directory(base), "runs")
    held = Held(os.path.join(runs, "%s.%d" % (run_id, attempt)))
    sweep(runs, _YOUNG)
    return held


def _locked(path: str) -> int:
    """The file, locked by us among others; not one that was removed meanwhile."""
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


def _remove_unheld(path: str, lock: str, file: int) -> bool:
    """Whether nobody else holds it, so that it is gone now."""
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


def sweep(directory: str, age: float) -> None:
    """Removes what nobody holds, and nobody has for `age` seconds."""
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
            _remove_unheld(lock[: -len(".lock")], lock, file)
        finally:
            os.close(file)
