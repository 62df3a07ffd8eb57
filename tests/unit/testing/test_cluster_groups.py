"""Which hierarchy of control groups the nodes of the tests' own Slurm cluster use."""

from __future__ import annotations

from pathlib import Path

import pytest
from slurm import groups
from slurm.groups import Hierarchy, hierarchy

UNIFIED = "31 23 0:28 / /sys/fs/cgroup rw,relatime shared:4 - cgroup2 cgroup2 rw"
DELEGATED = "31 23 0:28 /pod /sys/fs/cgroup rw,relatime - cgroup2 cgroup2 rw"
BOTH = """\
31 23 0:28 / /sys/fs/cgroup rw - tmpfs tmpfs rw,mode=755
32 31 0:29 / /sys/fs/cgroup/cpu,cpuacct rw - cgroup cgroup rw,cpu,cpuacct
37 31 0:34 / /sys/fs/cgroup/freezer rw - cgroup cgroup rw,freezer
41 31 0:38 / /sys/fs/cgroup/unified rw - cgroup2 cgroup2 rw"""


@pytest.mark.parametrize(
    ("own", "mounts", "found"),
    [
        ("0::/user.slice/a.scope\n", UNIFIED, Hierarchy(2, "/sys/fs/cgroup/user.slice/a.scope")),
        ("0::/\n", UNIFIED, Hierarchy(2, "/sys/fs/cgroup")),
        ("0::/pod/a\n", DELEGATED, Hierarchy(2, "/sys/fs/cgroup/a")),
        ("6:freezer:/a\n2:cpu,cpuacct:/\n0::/\n", BOTH, Hierarchy(1, "/sys/fs/cgroup/freezer/a")),
        ("2:cpu,cpuacct:/\n0::/\n", BOTH, None),
        ("6:freezer:/\n0::/\n", UNIFIED, None),
        ("0::/\n", "27 1 254:0 / / rw - ext4 /dev/vda rw", None),
        ("", UNIFIED, None),
    ],
)
def test_the_hierarchy(own: str, mounts: str, found: Hierarchy | None) -> None:
    assert hierarchy(own, mounts) == found


def test_a_group_is_removed_with_those_in_it_and_files_stay(tmp_path: Path) -> None:
    (tmp_path / "group" / "node1" / "slurm").mkdir(parents=True)
    (tmp_path / "other" / "node1").mkdir(parents=True)
    (tmp_path / "other" / "node1" / "file").touch()
    for name in ("group", "other", "missing"):
        groups.remove(str(tmp_path / name))
    assert not (tmp_path / "group").exists()
    assert (tmp_path / "other" / "node1" / "file").exists()
