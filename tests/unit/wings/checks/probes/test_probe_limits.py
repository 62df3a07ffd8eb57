"""Limits that ranks inherit, against what the run needs."""

from __future__ import annotations

import resource
from pathlib import Path

import pytest
from recorded_node import node

from worldsize.common.named_tuple import Any
from worldsize.state.check_rows import OK, WARNING
from worldsize.wings.checks.agent.probes import limits
from worldsize.wings.checks.agent.probes.limits import Limits, judge_limits, probe, read_limits

MIB = 1 << 20
PORT = "sys/class/infiniband/%s/ports/1/%s"


def port(device: str = "mlx5_0", layer: str = "InfiniBand", state: str = "4: ACTIVE") -> dict[str, str]:
    return {PORT % (device, "link_layer"): layer + "\n", PORT % (device, "state"): state + "\n"}


def verdicts(tmp_path: Path, found: Limits, **named: Any) -> list[str]:
    """Those of open files, locked memory and processes."""
    rows = judge_limits(node(tmp_path, **named), found)
    assert [each.id for each in rows] == ["limits.open_files", "limits.memlock", "limits.processes"]
    return [each.verdict for each in rows]


def test_no_limits(tmp_path: Path) -> None:
    assert verdicts(tmp_path, Limits(None, None, None), files=port()) == [OK] * 3


@pytest.mark.parametrize(
    "files, nodes, ranks, verdict",
    [(1024, 2, 8, OK), (1023, 2, 8, WARNING), (1024, 96, 8, OK), (1024, 128, 8, WARNING), (65536, 512, 8, OK)],
)
def test_open_files(tmp_path: Path, files: int, nodes: int, ranks: int, verdict: str) -> None:
    assert verdicts(tmp_path, Limits(files, None, None), asked={"ranks": ranks}, nodes=nodes)[0] == verdict


@pytest.mark.parametrize(
    "files, nodes, verdict",
    [
        ({}, 2, OK),
        (port(), 2, WARNING),
        (port(), 1, OK),
        (port(state="1: DOWN"), 2, OK),
        (port("mlx5_an0", "Ethernet"), 2, OK),
        (port("hfi1_0"), 2, WARNING),
        ({**port("mlx5_0", "Ethernet"), **port("mlx5_1")}, 2, WARNING),
        ({**port(), "proc/meminfo": "MemTotal: 16384 kB\n"}, 2, OK),
        (dict.fromkeys(port(), "\0\0"), 2, OK),
    ],
)
def test_locked_memory(tmp_path: Path, files: dict[str, str], nodes: int, verdict: str) -> None:
    found = judge_limits(node(tmp_path, files=files, nodes=nodes), Limits(None, 8 * MIB, None))[1]
    assert found.verdict == verdict
    assert ("MEMLOCK" in found.hint and "8 MiB, and" in found.value) == (verdict == WARNING)


@pytest.mark.parametrize(
    "left, asked, verdict",
    [
        (4096, {"ranks": 8, "workers": 8}, OK),
        (512, {"ranks": 8, "workers": 8}, WARNING),
        (20, {}, WARNING),
        (100, {}, OK),
        (0, {"ranks": 10**12}, WARNING),
    ],
)
def test_processes(tmp_path: Path, left: int, asked: dict[str, Any], verdict: str) -> None:
    environ = {"OMP_NUM_THREADS": "4"}
    assert verdicts(tmp_path, Limits(None, None, left), asked=asked, environ=environ)[2] == verdict


def test_limits_of_this_process(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    soft = {resource.RLIMIT_NOFILE: 1024, resource.RLIMIT_MEMLOCK: 65536, resource.RLIMIT_NPROC: 4096}
    monkeypatch.setattr(limits.resource, "getrlimit", lambda kind: (soft[kind], resource.RLIM_INFINITY))
    monkeypatch.setattr(limits.os, "geteuid", lambda: 1000)
    assert read_limits(node(tmp_path)) == Limits(1024, 65536, 4096)
    assert read_limits(node(tmp_path, files={"proc/self/status": "CapEff:\t0000000000004000\n"})).locked is None
    assert read_limits(node(tmp_path, files={"proc/self/status": "CapEff:\t0000000001000000\n"})).processes is None
    assert read_limits(node(tmp_path, files={"proc/self/status": "CapEff:\tzz\n"})) == Limits(1024, 65536, 4096)


def test_limit_of_the_control_group(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(limits.os, "geteuid", lambda: 0)
    files = {
        "proc/self/cgroup": "0::/\n",
        "proc/self/mountinfo": "30 22 0:26 / /sys/fs/cgroup rw - cgroup2 cgroup2 rw\n",
        "sys/fs/cgroup/pids.max": "100\n",
        "sys/fs/cgroup/pids.current": "40\n",
    }
    assert read_limits(node(tmp_path, files=files)).processes == 60


def test_on_this_machine(tmp_path: Path) -> None:
    assert len(probe(node(tmp_path)._replace(root="/")).rows) == 3
