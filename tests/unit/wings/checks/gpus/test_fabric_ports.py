"""The fabric's ports in the kernel's files, their counters, GPUDirect and Azure's sizes."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from gpu_recordings import node, put, put_driver

from worldsize.agent.machine.fabric_counters import read_sent_bytes
from worldsize.agent.machine.fabric_ports import FabricPort, read_ports
from worldsize.common.azure_sizes import SIZES, azure_size
from worldsize.state.check_rows import OK, WARNING, CheckRow
from worldsize.wings.checks.agent.node_context import NodeContext
from worldsize.wings.checks.agent.probes.fabric import probe

OPEN_MODULE = "NVRM version: NVIDIA UNIX Open Kernel Module for x86_64  570.86.15  Release Build\n"


def put_port(root: Path, device: str = "mlx5_0", port: int = 1, **said: str) -> None:
    at = "sys/class/infiniband/%s/ports/%d/" % (device, port)
    files = {
        "state": "4: ACTIVE", "phys_state": "5: LinkUp", "rate": "400 Gb/sec (4X NDR)", "link_layer": "InfiniBand",
        "counters/port_xmit_data": "1000", "counters/port_rcv_data": "250", **said,
    }  # fmt: skip
    put(root, {at + name: text + "\n" for name, text in files.items()})


def put_verbs(root: Path) -> None:
    put(root, {"dev/infiniband/uverbs0": ""})


def rows(context: NodeContext) -> dict[str, CheckRow]:
    return {row.id: row for row in probe(context).rows}


def test_a_node_without_a_fabric_says_nothing_but_the_fact(tmp_path: Path) -> None:
    assert probe(node(tmp_path, nodes=4)) == ((), {"fabric": []})
    put(tmp_path, {"sys/class/infiniband/readme": ""})
    assert probe(node(tmp_path, nodes=4)) == ((), {"fabric": []})


def test_ports_of_all_layers(tmp_path: Path) -> None:
    put_port(tmp_path, "mlx5_0", 1)
    put_port(tmp_path, "mlx5_1", 2, link_layer="Ethernet", rate="25 Gb/sec (1X EDR)")
    put_port(tmp_path, "hfi1_0", 1, rate="100 Gb/sec (4X EDR)")
    put(tmp_path, {
        "sys/class/infiniband/mlx5_0/device/net/ib0/x": "",
        "sys/class/infiniband/mlx5_1/ports/2/gid_attrs/ndevs/0": "eth2\n",
    })  # fmt: skip
    assert read_ports(str(tmp_path)) == [
        FabricPort("hfi1_0", 1, "ACTIVE", "LinkUp", 100.0, "OmniPath", ""),
        FabricPort("mlx5_0", 1, "ACTIVE", "LinkUp", 400.0, "InfiniBand", "ib0"),
        FabricPort("mlx5_1", 2, "ACTIVE", "LinkUp", 25.0, "Ethernet", "eth2"),
    ]
    row = rows(node(tmp_path))["fabric.ports"]
    assert (row.verdict, row.value) == (OK, "1 × Omni-Path 100 Gb/s, 1 × InfiniBand 400 Gb/s, 1 × RoCE 25 Gb/s")
    fact = probe(node(tmp_path)).facts["fabric"][1]
    assert (fact["device"], fact["port"], fact["rate_gbps"], fact["layer"]) == ("mlx5_0", 1, 400.0, "InfiniBand")


def test_what_cannot_connect_nodes_is_left_out(tmp_path: Path) -> None:
    for device in ("mlx5_an0", "mana_0", "rxe0", "siw_eth0"):
        put_port(tmp_path, device, link_layer="Ethernet")
    assert read_ports(str(tmp_path)) == []
    put_port(tmp_path, "mlx5_ib0")
    assert [port.name for port in read_ports(str(tmp_path))] == ["mlx5_ib0/1"]


@pytest.mark.parametrize(
    ("state", "physical", "verdict"),
    [
        ("2: INIT", "5: LinkUp", WARNING),
        ("3: ARMED", "5: LinkUp", WARNING),
        ("1: DOWN", "2: Polling", OK),
        ("1: DOWN", "3: Disabled", OK),
    ],
)
def test_a_port_with_a_cable_that_is_not_active(tmp_path: Path, state: str, physical: str, verdict: str) -> None:
    put_port(tmp_path, "mlx5_0")
    put_port(tmp_path, "mlx5_1", state=state, phys_state=physical)
    put_verbs(tmp_path)
    row = rows(node(tmp_path, nodes=2))["fabric.ports"]
    assert row.verdict == verdict
    if verdict == WARNING:
        assert row.value == "mlx5_1/1: " + state[3:]
        assert row.hint.startswith("mlx5_1/1: the subnet manager")
    else:
        assert row.value == "1 × InfiniBand 400 Gb/s"


def test_ports_that_programs_cannot_open(tmp_path: Path) -> None:
    put_port(tmp_path)
    assert rows(node(tmp_path, nodes=2))["fabric.ports"].verdict == WARNING
    assert rows(node(tmp_path, nodes=1))["fabric.ports"].verdict == OK
    put_verbs(tmp_path)
    assert rows(node(tmp_path, nodes=2))["fabric.ports"].verdict == OK


def test_counters_are_bytes(tmp_path: Path) -> None:
    put_port(tmp_path)
    put_port(tmp_path, "mlx5_1", **{"counters/port_xmit_data": "N/A"})
    put_port(tmp_path, "mlx5_2", **{"counters/port_xmit_data": "1" + "0" * 18})
    assert read_sent_bytes(str(tmp_path)) == {"mlx5_0/1": 4000, "mlx5_2/1": 4 * 10**18}
    assert read_sent_bytes(str(tmp_path / "none")) == {}


def test_azures_accelerated_networking_is_no_fabric_whatever_its_device_is_called(tmp_path: Path) -> None:
    put_port(tmp_path, "mlx5_0", link_layer="Ethernet")
    put(tmp_path, {"sys/class/infiniband/mlx5_0/device/net/enP1s1/x": "", "sys/bus/vmbus/drivers/hv_netvsc/x": ""})
    put(tmp_path, {"sys/class/net/eth0/device/x": "", "sys/class/net/enP1s1/x": ""})
    (tmp_path / "sys/class/net/enP1s1/master").symlink_to("../eth0")
    driver = tmp_path / "sys/class/net/eth0/device/driver"
    driver.symlink_to("../../../../bus/vmbus/drivers/hv_netvsc")
    assert read_ports(str(tmp_path)) == []
    driver.unlink()
    assert [port.netdev for port in read_ports(str(tmp_path))] == ["enP1s1"]


def test_junk_in_the_kernels_files(tmp_path: Path) -> None:
    put_port(tmp_path, state="", phys_state="\0\0", rate="9" * 5000, link_layer="x" * 5000)
    put(tmp_path, {"sys/class/infiniband/mlx5_0/ports/1/counters/port_xmit_data": "9" * 60})
    put(tmp_path, {"sys/class/infiniband/mlx5_0/ports/two/state": "4: ACTIVE"})
    (port,) = read_ports(str(tmp_path))
    assert (port.state, port.rate_gbps, len(port.layer)) == ("", 0.0, 40)
    assert read_sent_bytes(str(tmp_path)) == {}
    assert probe(node(tmp_path, nodes=2)).rows == ()


def gpudirect(root: Path, nodes: int = 2) -> CheckRow | None:
    return rows(node(root, nodes=nodes)).get("fabric.gpudirect")


def test_gpudirect_by_a_module_or_by_dma_buf(tmp_path: Path) -> None:
    put_port(tmp_path)
    assert gpudirect(tmp_path) is None, "without GPUs"
    put_driver(tmp_path, 8)
    row = gpudirect(tmp_path)
    assert row is not None
    assert (row.verdict, "nvidia-peermem" in row.hint) == (WARNING, True)
    assert gpudirect(tmp_path, nodes=1) is None
    assert "fabric.gpudirect" not in rows(node(tmp_path, {"gpus": 0}, nodes=2))
    put_port(tmp_path, link_layer="Ethernet", rate="25 Gb/sec (1X EDR)")
    assert gpudirect(tmp_path) is None
    put_port(tmp_path)
    put(tmp_path, {"proc/driver/nvidia/version": OPEN_MODULE, "proc/sys/kernel/osrelease": "5.4.0-99\n"})
    assert (gpudirect(tmp_path) or row).verdict == WARNING
    put(tmp_path, {"proc/sys/kernel/osrelease": "6.8.0-1015-azure\n"})
    assert (gpudirect(tmp_path) or row).value == "by dma-buf"
    put(tmp_path, {"sys/module/nvidia_peermem/x": ""})
    assert (gpudirect(tmp_path) or row).value == "nvidia_peermem is loaded"


def test_gpudirect_is_not_asked_of_gpus_that_cannot(tmp_path: Path) -> None:
    put_port(tmp_path)
    put_driver(tmp_path, 2, "NVIDIA GeForce RTX 4090")
    assert gpudirect(tmp_path) is None
    put_driver(tmp_path, 2, "")
    assert gpudirect(tmp_path) is None


def azure(root: Path, size: object, nodes: int = 2) -> CheckRow | None:
    return rows(node(root, {"vm_size": size, "gpus": 8}, nodes)).get("fabric.azure_size")


def test_a_size_without_rdma_warns_where_there_are_several_nodes(tmp_path: Path) -> None:
    row = azure(tmp_path, "Standard_NC96ads_A100_v4")
    assert row is not None
    assert (row.verdict, row.value) == (WARNING, "Standard_NC96ads_A100_v4: no RDMA")
    alone = azure(tmp_path, "STANDARD_NC96ADS_A100_V4", nodes=1)
    assert alone is not None
    assert (alone.verdict, alone.value[26:]) == (OK, "4 × A100 80 GB, 880 GiB, no RDMA")


def test_of_the_two_sizes_of_the_azure_guide_one_has_rdma_and_all_else_is_alike(tmp_path: Path) -> None:
    without, having = SIZES["standard_nc24s_v3"], SIZES["standard_nc24rs_v3"]
    assert without._replace(ports=1, gbps=having.gbps) == having
    assert (having.gpus, having.memory_gib) == (4, 448)
    put_driver(tmp_path, 4)
    row = azure(tmp_path, "Standard_NC24s_v3")
    assert row is not None and (row.verdict, row.value) == (WARNING, "Standard_NC24s_v3: no RDMA")
    row = azure(tmp_path, "Standard_NC24rs_v3")
    assert row is not None and (row.verdict, row.value) == (WARNING, "Standard_NC24rs_v3: no InfiniBand port")
    put_port(tmp_path, "mlx5_ib0", rate="56 Gb/sec (4X FDR)")
    row = azure(tmp_path, "Standard_NC24rs_v3")
    assert row is not None and row.verdict == OK


def test_a_size_with_rdma_has_ports_and_all_its_gpus(tmp_path: Path) -> None:
    put_port(tmp_path, "mlx5_an0", link_layer="Ethernet")
    row = azure(tmp_path, "Standard_ND96isr_H100_v5")
    assert row is not None
    assert (row.verdict, row.value) == (WARNING, "Standard_ND96isr_H100_v5: no InfiniBand port")
    put_port(tmp_path, "mlx5_ib0")
    assert (azure(tmp_path, "Standard_ND96isr_H100_v5") or row).verdict == OK
    put_driver(tmp_path, 7)
    row = azure(tmp_path, "Standard_ND96isr_H100_v5")
    assert row is not None
    assert (row.verdict, row.value[26:]) == (WARNING, "7 of 8 GPUs")
    put_driver(tmp_path, 8)
    assert (azure(tmp_path, "Standard_ND96isr_H100_v5") or row).verdict == OK


@pytest.mark.parametrize("name", ["Standard_D4s_v5", "Standard_NC24r", "", None, 7, "x" * 5000, "Standard_H-", ["a"]])
def test_a_size_that_is_not_known_is_not_judged(tmp_path: Path, name: object) -> None:
    assert azure(tmp_path, name) is None


def test_the_table_of_sizes_holds_together() -> None:
    for name, size in SIZES.items():
        assert name == name.lower()
        cores = re.fullmatch(r"standard_[nh][a-z]\d+([a-z]*)(_.*)?", name)
        assert cores, name
        assert bool(size.ports) == bool(size.gbps) == ("r" in cores[1]), name
        assert bool(size.gpus) == bool(size.gpu), name
        assert size.memory_gib > 20
    assert azure_size("Standard_HB120-64rs_v3") == SIZES["standard_hb120rs_v3"]
    assert azure_size("Standard_HX176-24rs") == SIZES["standard_hx176rs"]


def test_ports_of_an_ordinary_network_need_not_be_open(tmp_path: Path) -> None:
    put_port(tmp_path, link_layer="Ethernet", rate="100 Gb/sec (4X EDR)")
    assert rows(node(tmp_path, nodes=2))["fabric.ports"].verdict == OK


@pytest.mark.parametrize(("asked", "nodes"), [({"backend": "gloo"}, 2), ({}, 1)])
def test_a_fabric_that_the_job_does_not_use_is_not_complained_of(
    tmp_path: Path, asked: dict[str, str], nodes: int
) -> None:
    put_port(tmp_path)
    put_port(tmp_path, "mlx5_1", state="2: INIT")
    put_driver(tmp_path, 8)
    assert {row.verdict for row in probe(node(tmp_path, asked, nodes)).rows} == {OK}


def test_a_container_with_some_of_the_gpus_has_lost_none(tmp_path: Path) -> None:
    put_port(tmp_path, "mlx5_ib0")
    put_driver(tmp_path, 4)
    context = node(tmp_path, {"vm_size": "Standard_ND96isr_H100_v5", "gpus": 4}, nodes=2)
    assert rows(context)["fabric.azure_size"].verdict == OK
