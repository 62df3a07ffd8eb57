"""Rows of the GPUs' health, and of how they are connected."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import pytest
from gpu_recordings import H100, TOPO_DGX1, TOPO_H100, gpu_xml, node, put, put_driver, several, smi_xml

from worldsize.state.check_rows import BAD, OK, WARNING, CheckRow
from worldsize.wings.checks.agent.gpu.device import Gpu
from worldsize.wings.checks.agent.gpu.kernel_log import Xid, is_same_device, parse_xids, read_xids
from worldsize.wings.checks.agent.gpu.links import NvLinks, is_switched, parse_nvlinks, parse_topology
from worldsize.wings.checks.agent.gpu.xml_report import parse_xml
from worldsize.wings.checks.agent.probes.gpu_topology import topology_result
from worldsize.wings.checks.agent.probes.gpus import gpus_result

XID = "4,1234,%d,-;NVRM: Xid (PCI:%s): %d, pid=771, name=python, Ch 0000000a\n"


def health(root: Path, text: str, xids: list[Xid] | None = None, **environ: str) -> dict[str, CheckRow]:
    context, report = node(root, **environ), parse_xml(text)
    rows = gpus_result(context, report, xids).rows
    return {row.id: row for row in rows if row.id not in ("gpu.count", "gpu.memory")}


def test_healthy_gpus(tmp_path: Path) -> None:
    rows = health(tmp_path, several(8, active=("gpu_idle",), state="Completed"), [])
    assert {id: (row.verdict, row.value) for id, row in rows.items()} == {
        "gpu.ecc": (OK, "none"),
        "gpu.recovery": (OK, "none"),
        "gpu.xid": (OK, "none"),
        "gpu.throttle": (OK, "none"),
    }


def test_xids_that_cannot_be_read_are_told_in_the_row_of_the_recovery_action(tmp_path: Path) -> None:
    rows = health(tmp_path, several(1))
    assert "gpu.xid" not in rows
    assert rows["gpu.recovery"].value == "none; Xids cannot be read as this user"


def test_a_gpu_that_tells_little_has_few_rows(tmp_path: Path) -> None:
    silent = health(tmp_path, "<gpu><uuid>GPU-1</uuid></gpu>")
    assert [(row.id, row.verdict) for row in silent.values()] == [("gpu.recovery", OK)]
    assert health(tmp_path, "No devices were found") == {}


@pytest.mark.parametrize(
    ("said", "words"),
    [
        ({"uncorrected": "2"}, "uncorrectable errors"),
        ({"pending": "Yes"}, "memory whose replacement waits for a reset"),
        ({"failure": "Yes"}, "memory without spare rows left"),
    ],
)
def test_memory_that_fails(tmp_path: Path, said: dict[str, Any], words: str) -> None:
    row = health(tmp_path, smi_xml(gpu_xml(), gpu_xml(uuid="GPU-2", **said)))["gpu.ecc"]
    assert (row.verdict, row.value) == (WARNING, "GPU 1: " + words)


@pytest.mark.parametrize(
    ("said", "verdict"),
    [
        ({"recovery": "Reset"}, BAD),
        ({"recovery": "Reboot"}, BAD),
        ({"recovery": "Drain P2P"}, BAD),
        ({"recovery": "Drain and Reset"}, WARNING),
        ({"recovery": "Something New"}, WARNING),
        ({"recovery": "N/A"}, OK),
        ({"total": "GPU is lost"}, BAD),
        ({"used": "[GPU requires reset]"}, BAD),
        ({"state": "In Progress"}, WARNING),
        ({"state": "In Progress", "model": "NVIDIA H100 PCIe"}, OK),
    ],
)
def test_recovery_actions(tmp_path: Path, said: dict[str, Any], verdict: str) -> None:
    row = health(tmp_path, smi_xml(gpu_xml(), gpu_xml(uuid="GPU-2", **said)), [])["gpu.recovery"]
    assert row.verdict == verdict
    assert (row.value[:7] == "GPU 1: ") == (verdict != OK)


def test_only_the_ranks_gpus_are_judged(tmp_path: Path) -> None:
    text = smi_xml(gpu_xml(), gpu_xml(uuid="GPU-2", recovery="Reset", uncorrected="9", active=("hw_slowdown",)))
    assert {row.verdict for row in health(tmp_path, text, [], CUDA_VISIBLE_DEVICES="0").values()} == {OK}


@pytest.mark.parametrize("driver", [470, 580])
def test_reasons_for_a_lower_clock_are_judged_by_bits(tmp_path: Path, driver: int) -> None:
    def verdict(*active: str) -> str:
        return health(tmp_path, several(2, driver, active=active))["gpu.throttle"].verdict

    assert verdict("gpu_idle", "sw_power_cap", "sync_boost", "applications_clocks_setting") == OK
    assert verdict("gpu_idle", "hw_slowdown") == WARNING
    for reason in ("hw_thermal_slowdown", "hw_power_brake_slowdown", "sw_thermal_slowdown"):
        assert verdict(reason) == WARNING
    row = health(tmp_path, several(2, active=("hw_slowdown", "hw_thermal_slowdown")))["gpu.throttle"]
    assert row.value == "GPUs 0, 1: too hot (hardware thermal slowdown)"


def test_xids_in_the_kernels_records() -> None:
    text = "6,1,5,-;usb 1-1: new device\n" + XID % (90_000_000, "0000:5f:00", 79) + " SUBSYSTEM=pci\n4,x,;NVRM: Xid (\n"
    assert parse_xids(text, 100.0) == [Xid(79, "0000:5f:00", 10.0)]
    assert parse_xids("", 1.0) == []
    assert is_same_device("0000:5f:00", "00000000:5F:00.0")
    assert not is_same_device("0000:5f:00", "00000000:60:00.0")
    assert not is_same_device("0001:5f:00", "00000000:5F:00.0")


def test_the_log_is_read_where_this_user_may(tmp_path: Path) -> None:
    assert read_xids(node(tmp_path)) is None
    put(tmp_path, {"dev/kmsg": XID % (1, "0000:01:00", 31), "proc/uptime": "0.5 0.9\n"})
    assert read_xids(node(tmp_path), 61.5) == [Xid(31, "0000:01:00", pytest.approx(61.5))], "whatever a container says"
    if os.geteuid():
        (tmp_path / "dev/kmsg").chmod(0)
        assert read_xids(node(tmp_path)) is None


def test_what_xids_ask_for(tmp_path: Path) -> None:
    def row(*xids: tuple[int, str, float]) -> CheckRow:
        return health(tmp_path, several(2), [Xid(*xid) for xid in xids])["gpu.xid"]

    reset = row((48, "0000:02:00", 720.0))
    assert (reset.verdict, reset.value) == (WARNING, "48 on 0000:02:00 12 min ago")
    assert "a reset of the GPU" in reset.hint
    assert row((48, "0000:02:00", 7300.0)).verdict == OK, "long ago"
    assert row((48, "0000:09:00", 10.0)).verdict == OK, "of a GPU that is not the job's"
    assert row((79, "0000:09:00", 10.0)).verdict == WARNING, "gone from the bus, so of anybody's"
    harmless = row((31, "0000:01:00", 1.0), (13, "0000:01:00", 1.0), (999, "0000:01:00", 1.0))
    assert (harmless.verdict, harmless.value) == (OK, "13, 31, 999: caused by programs, or informational")


def test_models_on_boards_where_all_are_connected() -> None:
    boards = (H100, "NVIDIA A100-SXM4-80GB", "NVIDIA H200", "NVIDIA B200", "NVIDIA GB200", "NVIDIA H20")
    cards = ("NVIDIA H100 PCIe", "NVIDIA H100 NVL", "NVIDIA H200 NVL", "NVIDIA A100-PCIE-40GB", "Tesla V100-SXM2-32GB")
    assert [is_switched(model) for model in boards] == [True] * 6
    others = ("NVIDIA L40S", "NVIDIA GeForce RTX 3090", "NVIDIA GH200 480GB", "")
    assert [is_switched(model) for model in (*cards, *others)] == [False] * 9


def test_the_matrix_of_connections() -> None:
    pairs = parse_topology(TOPO_H100)
    assert pairs == {(a, b): "NV6" for a in range(4) for b in range(a + 1, 4)}
    assert parse_topology(TOPO_DGX1)[0, 3] == "SYS"
    assert parse_topology("\tGPU0\tCPU Affinity\nGPU0\t X \t0-13\n") == {}
    for text in ("", "GPU0\nGPU0 X\n", "GPU\tGPUx\tX\n" * 9, "Failed to initialize NVML\n", "\x1b[" * 99):
        assert parse_topology(text) == {}


def nvlinks(*states: str) -> str:
    return "".join(
        "GPU %d: Tesla V100-SXM2-32GB (UUID: GPU-%d)\n" % (gpu, gpu)
        + "".join("\t Link %d: %s\n" % (n, "25.781 GB/s" if up == "1" else "<inactive>") for n, up in enumerate(links))
        for gpu, links in enumerate(states)
    )


def test_nvlinks_that_are_up() -> None:
    assert parse_nvlinks(nvlinks("111111", "111010")) == [
        NvLinks(0, "Tesla V100-SXM2-32GB", 6, 6),
        NvLinks(1, "Tesla V100-SXM2-32GB", 4, 6),
    ]
    none = (
        "GPU 0: Quadro RTX 5000 (UUID: GPU-a) NVML: Unable to retrieve Nvlink information as all links are inActive\n"
    )
    assert parse_nvlinks(none + "GPU 1: NVIDIA L4 (UUID: GPU-b)\n") == []
    assert parse_nvlinks("         Link 0: 25 GB/s\n" * 9) == []


def topology(root: Path, models: list[str], matrix: str, links: str = "", **said: Any) -> CheckRow | None:
    gpus = [Gpu(number, model, **said) for number, model in enumerate(models)]
    rows = topology_result(node(root), gpus, parse_topology(matrix), parse_nvlinks(links)).rows
    return rows[0] if rows else None


def test_connections_that_are_as_they_should_be(tmp_path: Path) -> None:
    row = topology(tmp_path, [H100] * 4, TOPO_H100, nvlinks("111", "111"))
    assert row is not None
    assert (row.verdict, row.value) == (OK, "4 GPUs, NV6 between them")
    dgx1 = topology(tmp_path, ["Tesla V100-SXM2-32GB"] * 4, TOPO_DGX1, nvlinks("111111", "111111"))
    assert dgx1 is not None
    assert dgx1.verdict == OK
    bridges = nvlinks("1111", "1111", "0000").replace("Tesla V100-SXM2-32GB", "NVIDIA A100-PCIE-40GB")
    cards = topology(tmp_path, ["NVIDIA A100-PCIE-40GB"] * 4, TOPO_DGX1, bridges)
    assert cards is not None
    assert cards.verdict == OK
    assert topology(tmp_path, [H100] * 4, TOPO_DGX1, mig=True) is None
    assert topology(tmp_path, [H100] * 4, "junk", "junk") is None


def test_connections_that_are_down(tmp_path: Path) -> None:
    row = topology(tmp_path, ["Tesla V100-SXM2-32GB"] * 2, "", nvlinks("111111", "111010"))
    assert row is not None
    assert (row.verdict, row.value) == (WARNING, "GPU 1: 4 of 6 NVLinks")
    row = topology(tmp_path, [H100] * 4, TOPO_DGX1)
    assert row is not None
    assert (row.verdict, row.value) == (WARNING, "GPU 0–3: SYS, GPU 1–2: SYS")


def test_fewer_lanes_than_most_others(tmp_path: Path) -> None:
    def verdict(*widths: int) -> str:
        gpus = [Gpu(number, H100, width=width) for number, width in enumerate(widths)]
        return topology_result(node(tmp_path), gpus, parse_topology(TOPO_H100), []).rows[0].verdict

    assert verdict(16, 16, 8, 16) == WARNING
    assert [verdict(16, 8), verdict(16, 16, 8, 8), verdict(8, 8, 8, 16), verdict(16, 16, 16, 16)] == [OK] * 4


@pytest.mark.parametrize("driver", [440, 470, 535, 550, 570, 580])
@pytest.mark.parametrize("active", [(), ("gpu_idle",), ("gpu_idle", "sw_power_cap"), ("applications_clocks_setting",)])
def test_no_false_alarm_on_clean_nodes(tmp_path: Path, driver: int, active: tuple[str, ...]) -> None:
    context = node(tmp_path, {"gpus": 8, "ranks": 8, "backend": "nccl"}, CUDA_VISIBLE_DEVICES="0,1,2,3,4,5,6,7")
    for said in ({}, {"state": "Completed"}, {"uncorrected": "N/A", "pending": "N/A", "failure": "N/A"}):
        report = parse_xml(several(8, driver, active=active, **said))
        assert {row.verdict for row in gpus_result(context, report, []).rows} == {OK}


def test_a_virtual_machine_with_one_gpu_has_no_fabric(tmp_path: Path) -> None:
    put_driver(tmp_path, 1)
    assert health(tmp_path, smi_xml(gpu_xml(state="In Progress")), [])["gpu.recovery"].verdict == OK
    put_driver(tmp_path, 8)
    assert health(tmp_path, smi_xml(gpu_xml(state="In Progress")), [])["gpu.recovery"].verdict == WARNING
