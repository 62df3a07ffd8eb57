"""The umask of this process: functions that read it, and change it for a while.

Standard library only: travels inside agent.pyz (Python >= 3.8).
"""

from __future__ import annotations

import os

from worldsize.common.atomic_files import read_if_possible


def own_umask() -> int:
    """Return the umask of this process. If the system reports the umask in /proc, it is read from there; otherwise it
    is changed for a moment, and files that other threads create then may be affected."""
    for line in read_if_possible("/proc/self/status").splitlines():
        if line.startswith(b"Umask:"):
            return int(line.split()[1], 8)
    mask = os.umask(0o077)
    os.umask(mask)
    return mask


class Umask:
    """A context in which created files and started programs have the umask `mask`. None changes nothing. All threads
    share one umask, so no other thread may create files meanwhile."""

    def __init__(self, mask: int | None) -> None:
        self._mask = mask

    def __enter__(self) -> None:
        if self._mask is not None:
            self._before = os.umask(self._mask)

    def __exit__(self, *_: object) -> None:
        if self._mask is not None:
            os.umask(self._before)
