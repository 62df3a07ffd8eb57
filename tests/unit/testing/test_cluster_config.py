"""The configuration that the tests' own Slurm cluster starts from."""

from __future__ import annotations

import ipaddress
import re

import pytest
from slurm.config import Flavour, Machine, Network, files, hosts

FLAVOURS = [
    Flavour(),
    Flavour(accounting=False),
    Flavour(gpus=0),
    Flavour(nodes=1, affinity=True),
    Flavour(enforce=True),
]


def written(flavour: Flavour, version: tuple[int, int] = (22, 5)) -> dict[str, str]:
    return dict(files(flavour, Network(3), "/srv/c", Machine("here.example.org", version, "CPUs=2")))


def test_networks_are_all_different_and_within_the_range_for_tests() -> None:
    networks = [ipaddress.ip_network(Network(number).prefix + ".0/24") for number in range(512)]
    assert len(set(networks)) == 512
    assert all(network.subnet_of(ipaddress.ip_network("198.18.0.0/15")) for network in networks)
    assert all(len(Network(number).link) < 16 for number in range(512)), "the kernel's limit"


@pytest.mark.parametrize("flavour", FLAVOURS, ids=str)
def test_no_value_is_empty_and_no_key_is_said_twice(flavour: Flavour) -> None:
    keys = re.findall(r"^(\w+)=(\S.*)?$", written(flavour)["slurm.conf"], re.MULTILINE)
    assert all(value for _, value in keys)
    single = [key for key, _ in keys if key not in ("NodeName", "PartitionName")]
    assert len(single) == len(set(single))


def test_what_a_flavour_leaves_out_is_not_mentioned() -> None:
    without = written(Flavour(accounting=False, gpus=0))
    assert "Accounting" not in without["slurm.conf"]
    assert "slurmdbd.conf" not in without
    assert "Gres=" not in without["slurm.conf"]
    assert without["gres.conf"] == "AutoDetect=off\n"


def test_every_node_has_a_line_and_a_name_that_resolves() -> None:
    flavour = Flavour(nodes=3)
    names = re.findall(r"^NodeName=(\S+) NodeAddr=(\S+)", written(flavour)["slurm.conf"], re.MULTILINE)
    resolved = {name: line.split()[0] for line in written(flavour)["hosts"].splitlines() for name in line.split()[1:]}
    assert [name for name, _ in names] == ["node1", "node2", "node3"]
    assert all(resolved[name] == address for name, address in names)
    assert resolved["here"] == resolved["here.example.org"] == resolved["login"]


@pytest.mark.parametrize("here", ["localhost", "node1", "ctl", ""])
def test_this_machine_s_name_takes_none_of_the_cluster_s(here: str) -> None:
    names = [name for line in hosts(Flavour(), Network(3), here).splitlines() for name in line.split()[1:]]
    assert sorted(names) == ["ctl", "localhost", "login", "node1", "node2", "node3", "node4"]


@pytest.mark.parametrize("version", [(21, 8), (22, 5), (24, 11)])
def test_control_groups_are_declined_as_each_version_wants_it(version: tuple[int, int]) -> None:
    text = written(Flavour(), version)["cgroup.conf"]
    assert ("CgroupPlugin=" in text) == (version >= (22, 5))
    assert ("CgroupAutomount=" in text) == (version < (23, 2))


@pytest.mark.parametrize("version", [1, 2])
def test_control_groups_are_used_where_nodes_have_them(version: int) -> None:
    machine = Machine("here", (24, 11), "CPUs=2", version)
    text = files(Flavour(affinity=True), Network(3), "/srv/c", machine)
    assert "CgroupPlugin=cgroup/v%d\n" % version in text["cgroup.conf"]
    assert ("IgnoreSystemd=yes" in text["cgroup.conf"]) == (version == 2)
    assert "ProctrackType=proctrack/cgroup\n" in text["slurm.conf"]
    assert "TaskPlugin=task/affinity,task/cgroup\n" in text["slurm.conf"]
    without = written(Flavour())["slurm.conf"]
    assert "ProctrackType=proctrack/linuxproc\n" in without and "TaskPlugin" not in without
