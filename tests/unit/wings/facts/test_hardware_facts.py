"""What a machine is made of, by recorded trees."""

from __future__ import annotations

import os
import tempfile
from pathlib import Path
from types import SimpleNamespace

import pytest
from hypothesis import given
from hypothesis import strategies as st
from recorded_machines import ARM, POWER, X86, put, put_cores, put_interface, put_nvidia, put_port

from worldsize.agent.machine.cores import Cores
from worldsize.wings.facts.agent import gpus
from worldsize.wings.facts.agent.gpus import GpuFacts, find_gpus, gpu_rows
from worldsize.wings.facts.agent.hardware import hardware_rows, machine_of
from worldsize.wings.facts.agent.networks import network_text
from worldsize.wings.facts.agent.processors import cores_text, processor_text
from worldsize.wings.metrics.agent.gpus import program
from worldsize.wings.metrics.agent.gpus.amd import amd_gpus
from worldsize.wings.metrics.agent.gpus.nvml import Facts


@pytest.mark.parametrize(
    ("text", "name"),
    [
        (X86, "Intel Xeon Gold 6148 CPU @ 2.40GHz"),
        (POWER, "POWER9, altivec supported"),
        (ARM % ("0x41", "0xd0c"), "Arm Neoverse N1"),
        (ARM % ("0x46", "0x001"), "Fujitsu A64FX"),
        (ARM % ("0x41", "0xfff"), "ARM, implementer 0x41, part 0xfff"),
        (ARM % ("0x41", ""), ""),
        ("", ""),
    ],
)
def test_the_processors_name(tmp_path: Path, text: str, name: str) -> None:
    put(tmp_path, {"proc/cpuinfo": text})
    assert processor_text(str(tmp_path)) == name


@pytest.mark.parametrize(
    ("sockets", "cores", "threads", "found"),
    [
        (1, 1, 1, "POWER9, altivec supported, 1 core"),
        (1, 4, 2, "POWER9, altivec supported, 4 cores"),
        (2, 20, 2, "2 × POWER9, altivec supported, 20 cores each"),
    ],
)
def test_sockets_and_cores_without_their_threads(
    tmp_path: Path, sockets: int, cores: int, threads: int, found: str
) -> None:
    put(tmp_path, {"proc/cpuinfo": POWER})
    put_cores(tmp_path, sockets, cores, threads)
    assert processor_text(str(tmp_path)) == found


@pytest.mark.parametrize(
    ("cores", "text"),
    [
        (Cores(8, 8), "8"),
        (Cores(2, 80), "2 of 80"),
        (Cores(8, 8, 3.5), "3.5 of 8"),
        (Cores(256, 256), "256"),
        (Cores(4), "4"),
    ],
)
def test_usable_cores(cores: Cores, text: str) -> None:
    assert cores_text(cores) == text


def test_ports_of_one_kind_are_one_text_and_their_interfaces_none(tmp_path: Path) -> None:
    for number in range(4):
        put_port(tmp_path, "mlx5_%d" % number, rate="400 Gb/sec (4X NDR)")
        put_interface(tmp_path, "ib%d" % number, kind="32")
    put_port(tmp_path, "mlx5_9", "Ethernet", "100 Gb/sec (4X EDR)", netdev="eth1")
    put_port(tmp_path, "mlx5_down", state="1: DOWN")
    put_interface(tmp_path, "eth0")
    put_interface(tmp_path, "eth1", "100000")
    put_interface(tmp_path, "eth2", state="down")
    put_interface(tmp_path, "docker0", real=False)
    found = "4 × InfiniBand 400 Gb/s (mlx5_0/1 to mlx5_3/1), RoCE 100 Gb/s (mlx5_9/1), eth0 25 Gb/s"
    assert network_text(str(tmp_path)) == found


@pytest.mark.parametrize(
    ("speed", "text"), [("100", "eth0 100 Mb/s"), ("2500", "eth0 2.5 Gb/s"), ("-1", "eth0"), ("4294967295", "eth0")]
)
def test_speeds_of_interfaces(tmp_path: Path, speed: str, text: str) -> None:
    put_interface(tmp_path, "eth0", speed)
    put_interface(tmp_path, "lo", real=False)
    assert network_text(str(tmp_path)) == text


def test_virtual_interfaces_where_there_is_nothing_else(tmp_path: Path) -> None:
    put_interface(tmp_path, "eth0", "10000", real=False)
    assert network_text(str(tmp_path)) == "eth0 10 Gb/s"
    assert network_text(str(tmp_path / "none")) == ""


def test_many_interfaces_are_cut(tmp_path: Path) -> None:
    for number in range(20):
        put_interface(tmp_path, "eth%02d" % number)
    assert network_text(str(tmp_path)).endswith("eth07 25 Gb/s, and 12 more")


def without_drivers(monkeypatch: pytest.MonkeyPatch, *found: GpuFacts) -> None:
    """No driver's library is asked: it has answered this."""
    asked = SimpleNamespace(
        has_gpus=lambda environ, root: os.path.exists(os.path.join(root, "dev/nvidia0")),
        find_gpus=lambda environ: [SimpleNamespace(facts=each) for each in found],
    )
    monkeypatch.setattr(gpus, "find_module", lambda name: asked)


def test_gpus_by_the_drivers_files(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    put_nvidia(tmp_path, "Tesla V100-SXM2-32GB", "Tesla V100-SXM2-32GB", "NVIDIA A100")
    without_drivers(monkeypatch)
    found = find_gpus({}, str(tmp_path))
    assert gpu_rows(found) == (("GPU", "2 × Tesla V100-SXM2-32GB, 1 × NVIDIA A100"), ("GPUs", "3"))
    assert [gpu.model for gpu in find_gpus({"CUDA_VISIBLE_DEVICES": "2"}, str(tmp_path))] == ["NVIDIA A100"]
    assert find_gpus({"CUDA_VISIBLE_DEVICES": ""}, str(tmp_path)) == []


def test_gpus_by_the_drivers_answer(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    put_nvidia(tmp_path, "x", "x")
    without_drivers(monkeypatch, *[GpuFacts("GPU-1", "NVIDIA H100 80GB HBM3", 80 << 30)] * 2)
    assert gpu_rows(find_gpus({}, str(tmp_path))) == (
        ("GPU", "NVIDIA H100 80GB HBM3"),
        ("GPUs", "2"),
        ("GPU memory", "80 GiB"),
    )


def test_without_a_device_no_driver_is_asked(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    without_drivers(monkeypatch, GpuFacts("GPU-1", "NVIDIA H100"))
    assert find_gpus({}, str(tmp_path)) == []
    assert gpu_rows([]) == ()


def test_gpus_by_what_samples_are_taken_with(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The two wings together: only the driver's library is left out."""
    put_nvidia(tmp_path, "x", "x")
    facts = Facts("GPU-1", "NVIDIA H100 80GB HBM3", 80 << 30, False)
    monkeypatch.setattr(program, "_nvidia", lambda: [program.Found(number, facts, None) for number in range(2)])
    assert find_gpus({}, str(tmp_path)) == [GpuFacts(*facts)] * 2
    assert find_gpus({"WORLDSIZE_VIRTUAL_GPUS": "2"}, str(tmp_path)) == []


def test_amds_gpus_by_what_samples_are_taken_with(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    card = "sys/class/drm/card%d/device/"
    for number in range(2):
        at = card % number
        put(tmp_path, {at + "vendor": "0x1002\n", at + "gpu_busy_percent": "0\n", at + "unique_id": "%d\n" % number})
        put(tmp_path, {at + "product_name": "AMD Instinct MI250X\n", at + "mem_info_vram_total": "%d\n" % (64 << 30)})
    put(tmp_path, {"dev/kfd": ""})
    monkeypatch.setattr(program, "_nvidia", list)
    monkeypatch.setattr(program, "amd_gpus", lambda: amd_gpus(str(tmp_path)))
    found = (("GPU", "AMD Instinct MI250X"), ("GPUs", "2"), ("GPU memory", "64 GiB"))
    assert gpu_rows(find_gpus({}, str(tmp_path))) == found


def test_rows_stand_in_their_order(tmp_path: Path) -> None:
    put(tmp_path, {"proc/cpuinfo": X86, "proc/meminfo": "MemTotal:       197851552 kB\n"})
    put(tmp_path, {"proc/sys/kernel/osrelease": "6.1.0-31-amd64\n", "proc/sys/kernel/random/boot_id": "abc\n"})
    put_interface(tmp_path, "eth0")
    rows = hardware_rows(str(tmp_path), (("GPU", "A100"), ("GPUs", "2")))
    assert [name for name, _ in rows] == ["CPU", "cores", "memory", "GPU", "GPUs", "kernel", "network"]
    assert dict(rows)["memory"] == "189 GiB"
    assert dict(rows)["kernel"].startswith("Linux 6.1.0-31-amd64 ")
    assert "cores" not in dict(hardware_rows(str(tmp_path), with_cores=False))
    assert machine_of(str(tmp_path), "n1") == "abc"


def test_a_limit_of_memory(tmp_path: Path) -> None:
    put(tmp_path, {"proc/meminfo": "MemTotal:       197851552 kB\n", "proc/self/cgroup": "0::/job\n"})
    put(tmp_path, {"proc/self/mountinfo": "30 1 0:26 / /sys/fs/cgroup rw - cgroup2 cgroup2 rw\n"})
    put(tmp_path, {"sys/fs/cgroup/job/memory.max": "%d\n" % (64 << 30)})
    assert dict(hardware_rows(str(tmp_path)))["memory"] == "64 GiB of 189 GiB"


def test_an_empty_tree(tmp_path: Path) -> None:
    assert [name for name, _ in hardware_rows(str(tmp_path))] == ["cores"]
    assert machine_of(str(tmp_path), "n1") == "n1"


FILES = (
    "proc/cpuinfo", "proc/meminfo", "proc/sys/kernel/osrelease", "sys/devices/system/cpu/cpu0/topology/core_id",
    "sys/devices/system/cpu/cpu0/topology/physical_package_id", "sys/devices/system/cpu/online",
    "sys/devices/system/cpu/cpu0/topology/thread_siblings_list", "sys/class/net/eth0/speed", "dev/nvidia0",
    "sys/class/net/eth0/operstate", "sys/class/infiniband/mlx5_0/ports/1/rate", "proc/driver/nvidia/version",
    "sys/class/infiniband/mlx5_0/ports/1/state", "proc/driver/nvidia/gpus/0000:10:00.0/information",
)  # fmt: skip
LIKELY = st.sampled_from([b"model name : \n", b"9" * 5000, b"Model: \n", b"CPU part: 0x1\n", b"4: ACTIVE", b"up"])


@given(st.dictionaries(st.sampled_from(FILES), st.binary(max_size=200) | LIKELY))
def test_junk_is_left_out(tmp_path_factory: pytest.TempPathFactory, files: dict[str, bytes]) -> None:
    root = Path(tempfile.mkdtemp(dir=tmp_path_factory.getbasetemp()))
    for name, data in files.items():
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).write_bytes(data)
    rows = hardware_rows(str(root), gpu_rows(gpus._by_files(str(root))))
    assert all(isinstance(text, str) and 0 < len(text) <= 5000 for _, text in rows)
