"""A control group of little memory, in which the kernel kills what takes more."""

from __future__ import annotations

import os
import tempfile

from driver import Cli, wait_for

from causes.sequences import run_to_its_end

_BYTES = 64 << 20
_LIMITS = {
    "/sys/fs/cgroup/memory": ("memory.limit_in_bytes", "memory.memsw.limit_in_bytes"),
    "/sys/fs/cgroup": ("memory.max", "memory.swap.max"),
}
"""By the folder of the memory's control groups, the files of a limit: cgroup v1, and v2."""


def has_memory_groups() -> bool:
    """Whether this user can make one."""
    return _parent() is not None


def run_with_little_memory(cli: Cli) -> None:
    """Run the job. The file `group` of its code names the group, into which its script puts a rank."""
    parent = _parent()
    assert parent is not None
    group = tempfile.mkdtemp(prefix="worldsize-", dir=parent)
    try:
        _limit(parent, group)
        cli.write("group", group)
        run_to_its_end(cli)
    finally:
        wait_for(lambda: _removed(group))


def _parent() -> str | None:
    for parent in _LIMITS:
        try:
            group = tempfile.mkdtemp(prefix="worldsize-", dir=parent)
        except OSError:
            continue
        try:
            _limit(parent, group)
        except OSError:
            continue
        else:
            return parent
        finally:
            os.rmdir(group)
    return None


def _limit(parent: str, group: str) -> None:
    for name, size in zip(_LIMITS[parent], (_BYTES, _BYTES if parent.endswith("memory") else 0), strict=True):
        if os.path.exists(os.path.join(group, name)) or name == _LIMITS[parent][0]:
            with open(os.path.join(group, name), "w") as file:
                file.write(str(size))


def _removed(group: str) -> bool:
    try:
        os.rmdir(group)
    except OSError:
        return False
    return True
