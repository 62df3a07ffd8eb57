"""`share: group`: a run that the members of its group may read."""

from __future__ import annotations

import os
import stat

from worldsize.plan.paths import RunPaths

_ENTER = stat.S_IRGRP | stat.S_IXGRP


def open_directories(paths: RunPaths) -> None:
    """The group may enter the run's directories. What is written there from now on is readable to it."""
    for path in (paths.root, *paths.directories()):
        if os.path.isdir(path):
            _allow(path, _ENTER)


def open_code(paths: RunPaths) -> None:
    """The group may read the snapshot."""
    for directory, names, files in os.walk(paths.code):
        for name in names:
            path = os.path.join(directory, name)
            if not os.path.islink(path):
                _allow(path, _ENTER)
        for name in files:
            path = os.path.join(directory, name)
            mode = os.lstat(path).st_mode
            if stat.S_ISREG(mode):
                _allow(path, _ENTER if mode & stat.S_IXUSR else stat.S_IRGRP)


def closed_parent(paths: RunPaths) -> str | None:
    """The uppermost directory above the run that keeps the group out, if there is one."""
    closed = None
    path = os.path.dirname(paths.root)
    while path != os.path.dirname(path):
        if not os.stat(path).st_mode & (stat.S_IXGRP | stat.S_IXOTH):
            closed = path
        path = os.path.dirname(path)
    return closed


def _allow(path: str, bits: int) -> None:
    os.chmod(path, stat.S_IMODE(os.stat(path).st_mode) | bits)
