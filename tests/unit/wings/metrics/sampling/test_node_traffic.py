"""What a node has received and sent, and what it has, by recorded trees of /proc and /sys."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from worldsize.agent.machine import node_resources
from worldsize.agent.machine.control_groups import memory_limit
from worldsize.agent.machine.node_resources import usable_memory
from worldsize.wings.metrics.agent.network import NodeTraffic, counted_interfaces

HEADER = "Inter-|   Receive  |  Transmit\n face |bytes    packets errs drop\n"


def write(root: Path, name: str, text: str) -> None:
    path = root / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)


def interfaces(root: Path, **counted: tuple[int, int]) -> None:
    rows = ["%6s: %d 1 0 0 0 0 0 0 %d 1 0 0 0 0 0 0\n" % (name, *counts) for name, counts in counted.items()]
    write(root, "proc/self/net/dev", HEADER + "".join(rows))


def port(root: Path, device: str, received: str, sent: str) -> None:
    at = "sys/class/infiniband/%s/ports/1/counters/" % device
    write(root, at + "port_rcv_data", received)
    write(root, at + "port_xmit_data", sent)


def test_bytes_count_from_the_first_reading_on(tmp_path: Path) -> None:
    interfaces(tmp_path, lo=(5, 5), eth0=(1000, 100), eth1=(10, 1))
    traffic = NodeTraffic(str(tmp_path))
    assert traffic.interfaces == ("eth0", "eth1")
    assert traffic.read() == (0, 0)
    interfaces(tmp_path, lo=(500, 500), eth0=(1500, 100), eth1=(11, 5), eth2=(9, 9))
    assert traffic.read() == (501, 4)
    interfaces(tmp_path, eth0=(20, 110))  # the driver was loaded anew, and the other one is gone
    assert traffic.read() == (501, 14)


def test_nodes_that_are_one_machine_have_no_traffic_of_their_own(tmp_path: Path) -> None:
    interfaces(tmp_path, eth0=(1000, 100))
    port(tmp_path, "mlx5_0", "10\n", "20\n")
    traffic = NodeTraffic(str(tmp_path), is_shared=True)
    assert traffic.interfaces == ()
    assert traffic.read() == (None, None)


def test_ports_of_a_fabric_count_words_of_four_bytes(tmp_path: Path) -> None:
    interfaces(tmp_path, eth0=(0, 0), ib0=(0, 0))
    write(tmp_path, "sys/class/net/ib0/type", "32\n")
    port(tmp_path, "mlx5_0", "10\n", "20\n")
    port(tmp_path, "efa_0", "N/A\n", "N/A\n")
    traffic = NodeTraffic(str(tmp_path))
    assert traffic.interfaces == ("eth0",)
    assert traffic.read() == (0, 0)
    interfaces(tmp_path, eth0=(1, 2), ib0=(5000, 5000))
    port(tmp_path, "mlx5_0", "110\n", "1020\n")
    assert traffic.read() == (401, 4002)


def test_what_lies_on_other_interfaces_does_not_count_beside_them(tmp_path: Path) -> None:
    names = ("lo", "eth0", "eth1", "bond0", "br0", "veth1", "docker0", "eth0.7", "ib0")
    interfaces(tmp_path, **dict.fromkeys(names, (1, 1)))
    for above, below in (("bond0", "eth1"), ("br0", "eth0"), ("docker0", "veth1"), ("eth0.7", "eth0")):
        write(tmp_path, "sys/class/net/%s/lower_%s" % (above, below), "")
    for name in ("eth0", "veth1"):
        write(tmp_path, "sys/class/net/%s/brport/state" % name, "3\n")
    write(tmp_path, "sys/class/net/eth0/device/vendor", "0x15b3\n")
    write(tmp_path, "sys/class/net/ib0/type", "32\n")
    assert counted_interfaces(str(tmp_path)) == ("eth0", "eth1", "ib0")


@pytest.mark.parametrize("text", ["", "rubbish", HEADER, "eth0: 1 2 3\n", "eth0: a " + "b " * 20, ": " + "1 " * 16])
def test_where_nothing_counts_nothing_is_known(tmp_path: Path, text: str) -> None:
    write(tmp_path, "proc/self/net/dev", text)
    assert NodeTraffic(str(tmp_path)).read() == (None, None)
    assert NodeTraffic(str(tmp_path / "none")).read() == (None, None)


MEMINFO = "MemTotal:       1024 kB\nMemFree:        512 kB\n"
V2 = "30 25 0:26 / /sys/fs/cgroup rw - cgroup2 cgroup2 rw\n"
V1 = "30 25 0:26 / /sys/fs/cgroup/memory rw - cgroup cgroup rw,memory\n"


@pytest.mark.parametrize(
    ("mounts", "groups", "files", "limit"),
    [
        (V2, "0::/job\n", {"sys/fs/cgroup/job/memory.max": "4096\n"}, 4096),
        (V2, "0::/job\n", {"sys/fs/cgroup/job/memory.max": "max\n"}, None),
        (V2, "0::/job/step\n", {"sys/fs/cgroup/job/memory.max": "7\n", "sys/fs/cgroup/job/step/memory.max": "9\n"}, 7),
        (V2, "0::/job\n", {"sys/fs/cgroup/job/memory.max": "rubbish 1 2"}, None),
        (V1, "4:memory:/job\n", {"sys/fs/cgroup/memory/job/memory.limit_in_bytes": "8192\n"}, 8192),
        (V1, "4:memory:/job\n", {"sys/fs/cgroup/memory/job/memory.limit_in_bytes": "9223372036854771712\n"}, None),
        ("", "", {}, None),
    ],
)
def test_the_memory_that_control_groups_allow(
    tmp_path: Path, mounts: str, groups: str, files: dict[str, str], limit: int | None
) -> None:
    for name, text in {"proc/self/mountinfo": mounts, "proc/self/cgroup": groups, **files}.items():
        write(tmp_path, name, text)
    assert memory_limit(str(tmp_path)) == limit
    assert usable_memory(str(tmp_path)) == limit
    write(tmp_path, "proc/meminfo", MEMINFO)
    assert usable_memory(str(tmp_path)) == min(limit or 1 << 20, 1 << 20)


def test_cores_that_may_be_used(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "sched_getaffinity", lambda _: set(range(6)), raising=False)
    assert node_resources.usable_cores(str(tmp_path)) == 6
    write(tmp_path, "proc/self/mountinfo", V2)
    write(tmp_path, "proc/self/cgroup", "0::/job\n")
    write(tmp_path, "sys/fs/cgroup/job/cpu.max", "150000 100000\n")
    assert node_resources.usable_cores(str(tmp_path)) == 2
