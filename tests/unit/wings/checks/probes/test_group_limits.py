"""Limits of control groups: both versions, both at once, and what a container sees of its own."""

from __future__ import annotations

from pathlib import Path

import pytest
from recorded_node import node

from worldsize.agent.machine.control_groups import cpu_quota, memory_group, memory_kills, processes_left
from worldsize.agent.machine.mount_table import Mount, mount_of_path, read_mounts

V2 = "30 22 0:26 %s /sys/fs/cgroup rw,nosuid shared:4 - cgroup2 cgroup2 rw,nsdelegate\n"
V1 = "31 22 0:27 %s /sys/fs/cgroup/cpu,cpuacct rw shared:5 master:1 - cgroup cgroup rw,cpu,cpuacct\n"
TOP = "sys/fs/cgroup/"


def quota(tmp_path: Path, own: str, mounts: str, files: dict[str, str]) -> float | None:
    machine = {"proc/self/cgroup": own, "proc/self/mountinfo": mounts}
    return cpu_quota(node(tmp_path, files={**machine, **{TOP + name: text for name, text in files.items()}}).root)


@pytest.mark.parametrize(
    "own, files, found",
    [
        ("0::/\n", {"cpu.max": "150000 100000\n"}, 1.5),
        ("0::/a/b\n", {"a/cpu.max": "200000 100000\n", "a/b/cpu.max": "max 100000\n"}, 2.0),
        ("0::/a/b\n", {"a/cpu.max": "800000 100000\n", "a/b/cpu.max": "300000 100000\n"}, 3.0),
        ("0::/a\n", {"a/cpu.max": "max 100000\n"}, None),
        ("0::/a\n", {}, None),
        ("0::/../../host\n", {"cpu.max": "400000 100000\n", "host/cpu.max": "1 1\n"}, 4.0),
        ("0::/a\n", {"a/cpu.max": "0 100000\n"}, None),
        ("0::/a\n", {"a/cpu.max": "1 0\n"}, None),
        ("0::/a\n", {"a/cpu.max": "-1 100000\n"}, None),
        ("0::/a\n", {"a/cpu.max": "9" * 5000 + " 1"}, None),
        ("0::/a\n", {"a/cpu.max": "\0\0\0"}, None),
        ("", {"cpu.max": "1 1"}, None),
        ("\0::::\n0:\n", {"cpu.max": "1 1"}, None),
    ],
)
def test_version_2(tmp_path: Path, own: str, files: dict[str, str], found: float | None) -> None:
    assert quota(tmp_path, own, V2 % "/", files) == found


def test_version_2_in_a_container_that_sees_the_path_of_the_host(tmp_path: Path) -> None:
    own = "0::/kubepods/pod1/container\n"
    assert quota(tmp_path, own, V2 % "/kubepods/pod1/container", {"cpu.max": "200000 100000"}) == 2.0
    assert quota(tmp_path, own, V2 % "/elsewhere", {"cpu.max": "200000 100000"}) == 2.0


def test_version_1(tmp_path: Path) -> None:
    own = "12:pids:/a\n4:cpu,cpuacct:/slurm/uid_1\n0::/x\n"
    files = {
        "cpu,cpuacct/slurm/cpu.cfs_quota_us": "-1\n",
        "cpu,cpuacct/slurm/cpu.cfs_period_us": "100000\n",
        "cpu,cpuacct/slurm/uid_1/cpu.cfs_quota_us": "250000\n",
        "cpu,cpuacct/slurm/uid_1/cpu.cfs_period_us": "100000\n",
    }
    assert quota(tmp_path, own, V1 % "/", files) == 2.5


def test_processes_left(tmp_path: Path) -> None:
    files = {
        "proc/self/cgroup": "0::/a/b\n",
        "proc/self/mountinfo": V2 % "/",
        TOP + "a/pids.max": "1000\n",
        TOP + "a/pids.current": "990\n",
        TOP + "a/b/pids.max": "max\n",
        TOP + "a/b/pids.current": "5\n",
    }
    assert processes_left(node(tmp_path, files=files).root) == 10
    assert processes_left(node(tmp_path / "other").root) is None


def test_mounts(tmp_path: Path) -> None:
    text = (
        "21 1 8:1 / / rw - ext4 /dev/sda1 rw\n"
        "40 21 0:50 / /data rw shared:1 - nfs4 server:/export rw,addr=10.0.0.1\n"
        "41 40 0:51 / /data rw - autofs map rw\n"
        "42 21 0:52 /sub /with\\040blank rw - fuse.sshfs me@host:/ rw\n"
        "damaged line\n\n43 21 - x\n"
    )
    mounts = read_mounts(node(tmp_path, files={"proc/self/mountinfo": text}).root)
    assert mounts[3] == Mount("/with blank", "fuse.sshfs", "me@host:/", "/sub", ("rw",))
    kinds = {path: mount_of_path(path, mounts) for path in ("/data/x", "/database", "/data", "/with blank/a")}
    assert {path: mount.kind for path, mount in kinds.items() if mount} == {
        "/data/x": "autofs",
        "/database": "ext4",
        "/data": "autofs",
        "/with blank/a": "fuse.sshfs",
    }
    assert mount_of_path("/x", ()) is None


@pytest.mark.parametrize(
    "own, files, found",
    [
        ("0::/a/b\n", {"a/b/memory.events": "low 0\nhigh 0\nmax 9\noom 3\noom_kill 2\noom_group_kill 0\n"}, 2),
        ("0::/a/b\n", {"a/memory.events": "oom_kill 7\n", "a/b/memory.events": "oom_kill 0\n"}, 0),
        ("0::/a/b\n", {"a/memory.events": "oom_kill 7\n"}, 7),
        ("0::/\n", {}, None),
        ("0::/a\n", {"a/memory.events": "oom_kill"}, None),
        ("0::/a\n", {"a/memory.events": "\0\0"}, None),
    ],
)
def test_kills_of_the_own_group(tmp_path: Path, own: str, files: dict[str, str], found: int | None) -> None:
    machine = {"proc/self/cgroup": own, "proc/self/mountinfo": V2 % "/"}
    root = node(tmp_path, files={**machine, **{TOP + name: text for name, text in files.items()}}).root
    assert memory_kills(root) == found


@pytest.mark.parametrize(
    ("own", "found"),
    [
        ("0::/user.slice/job\n", "/user.slice/job"),
        ("4:memory:/slurm/uid_1\n0::/x\n", "/slurm/uid_1"),
        ("4:memory:/\n0::/x\n", None),
        ("0::/\n", None),
        ("0::/../../host\n", None),
        ("", None),
    ],
)
def test_the_group_that_counts_memory(tmp_path: Path, own: str, found: str | None) -> None:
    assert memory_group(node(tmp_path, files={"proc/self/cgroup": own}).root) == found
