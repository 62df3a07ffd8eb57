"""The directory for Ray's sockets and logs on a node, which exists until the run ends.

The path is short, since the names of sockets may have 107 characters, of which Ray takes 70. A directory whose lock is
not held was left by a run that was killed.

Standard library only: travels inside agent.pyz (Python >= 3.8).
"""

from __future__ import annotations

import fcntl
import os
import shutil
import stat
import tempfile

from worldsize.common.atomic_files import read_tail

_PLACE = "/tmp"
_LOCK = "lock"
_TAIL, _LINE = 20_000, 300
_TOLD = ("raylet.err", "raylet.out", "gcs_server.out")


class RayDirectory:
    """A directory of this process's own, at `path`. Its creation removes the directories of this user's runs that were
    killed."""

    def __init__(self, place: str = _PLACE) -> None:
        prefix = f"ws-ray-{os.getuid()}-"
        remove_abandoned(place, prefix)
        self.path = tempfile.mkdtemp(prefix=prefix, dir=place)
        made = os.path.join(self.path, _LOCK + ".new")
        self._lock = os.open(made, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        fcntl.flock(self._lock, fcntl.LOCK_EX)
        os.rename(made, os.path.join(self.path, _LOCK))

    def last_line(self) -> str:
        """Return the last line in the logs that Ray's own processes on this node have written. "" if there is none."""
        for name in _TOLD:
            text = read_tail(os.path.join(self.path, "session_latest", "logs", name), _TAIL).decode("utf-8", "replace")
            lines = [line.strip() for line in text.splitlines() if line.strip()]
            if lines:
                return lines[-1][:_LINE]
        return ""

    def remove(self) -> None:
        """Remove Ray's directory on this node with all its contents. Files that cannot be removed are left to the next
        run."""
        shutil.rmtree(self.path, ignore_errors=True)
        os.close(self._lock)


def remove_abandoned(place: str, prefix: str) -> None:
    """Remove the directories of Ray in `place` that this user's killed runs have left: their names begin with `prefix`,
    and no process holds their lock."""
    for name in os.listdir(place):
        path = os.path.join(place, name)
        if not name.startswith(prefix) or not _is_own_directory(path):
            continue
        try:
            lock = os.open(os.path.join(path, _LOCK), os.O_RDWR | os.O_NOFOLLOW | os.O_CLOEXEC)
        except OSError:  # it is being made or removed
            continue
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            shutil.rmtree(path, ignore_errors=True)
        except OSError:  # its run is still alive
            pass
        finally:
            os.close(lock)


def _is_own_directory(path: str) -> bool:
    try:
        found = os.lstat(path)
    except OSError:
        return False
    return stat.S_ISDIR(found.st_mode) and found.st_uid == os.getuid()
