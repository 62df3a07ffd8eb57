"""Cores: of the affinity, of a control group's quota, and what ranks make of them."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import pytest
from recorded_node import node, row

from worldsize.agent.machine import cores as readers
from worldsize.agent.machine.cores import Cores
from worldsize.common.named_tuple import Any
from worldsize.state.check_rows import OK, WARNING
from worldsize.wings.checks.agent.probes.cpus import judge_cores, probe


def complaint(tmp_path: Path, cores: Cores, asked: dict[str, Any], environ: Mapping[str, str] = {}) -> tuple[str, str]:
    """The id and the value of the one row that is a warning; empty where there is none."""
    rows = judge_cores(node(tmp_path, asked, environ), cores)
    assert all(each.hint for each in rows if each.verdict == WARNING)
    found = [(each.id, each.value) for each in rows if each.verdict != OK]
    assert len(found) <= 1
    return found[0] if found else ("", "")


@pytest.mark.parametrize(
    "cores, asked",
    [
        (Cores(64, 64), {"ranks": 8, "workers": 8, "cores": 64}),
        (Cores(64, 64), {"ranks": 8, "workers": 16}),
        (Cores(1, 1), {"ranks": 1, "workers": 1}),
        (Cores(1, 64), {"ranks": 1}),
        (Cores(1, 64), {}),
        (Cores(8, 64, 7.5), {"ranks": 4}),
        (Cores(32, 32), {"cores": 16}),
        (Cores(4), {"ranks": "8", "workers": None}),
    ],
)
def test_enough(tmp_path: Path, cores: Cores, asked: dict[str, Any]) -> None:
    assert complaint(tmp_path, cores, asked) == ("", "")


@pytest.mark.parametrize(
    "cores, asked, id, value",
    [
        (Cores(2, 2), {"ranks": 4}, "cpu.count", "2 for 4 ranks"),
        (Cores(64, 64, 2.0), {"ranks": 4}, "cpu.count", "2 for 4 ranks"),
        (Cores(8, 64), {"cores": 16}, "cpu.count", "8 of 16 that the job asks for"),
        (Cores(64, 64, 2.0), {}, "cpu.count", "64 are seen, and the control group gives the time of 2"),
        (Cores(64, 64, 0.5), {}, "cpu.count", "0.5 for 1 rank"),
        (Cores(8, 8), {"workers": 17}, "cpu.count", "8 for 17 loader workers"),
        (Cores(8, 8), {"ranks": 4, "workers": 5}, "cpu.count", "8 for 4 ranks with 5 loader workers each"),
        (Cores(1, 64), {"ranks": 2}, "cpu.binding", "all 2 ranks on one core of 64"),
        (Cores(1, 64), {"workers": 2}, "cpu.binding", "the rank and its 2 loader workers on one core of 64"),
        (Cores(1, 1), {"ranks": 2}, "cpu.count", "1 for 2 ranks"),
    ],
)
def test_too_few(tmp_path: Path, cores: Cores, asked: dict[str, Any], id: str, value: str) -> None:
    assert complaint(tmp_path, cores, asked) == (id, value)


@pytest.mark.parametrize("threads, is_said", [("1", False), ("2", False), ("3", True), ("many", True), ("", True)])
def test_quota_that_the_threads_keep(tmp_path: Path, threads: str, is_said: bool) -> None:
    found = complaint(tmp_path, Cores(64, 64, 4.0), {"ranks": 2}, {"OMP_NUM_THREADS": threads})
    assert bool(found[0]) == is_said


def test_cores_of_a_recorded_machine(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(readers.os, "sched_getaffinity", lambda pid: set(range(16)))
    files = {
        "proc/self/cgroup": "0::/job_7/step_0\n",
        "proc/self/mountinfo": "30 22 0:26 / /sys/fs/cgroup rw shared:4 - cgroup2 cgroup2 rw,nsdelegate\n",
        "sys/fs/cgroup/job_7/cpu.max": "400000 100000\n",
        "sys/fs/cgroup/job_7/step_0/cpu.max": "max 100000\n",
        "sys/devices/system/cpu/online": "0-63\n",
    }
    result = probe(node(tmp_path, files=files))
    assert result.facts == {"usable_cores": 16}
    assert row(result, "cpu.count").value == "16 are seen, and the control group gives the time of 4"
    assert row(result, "cpu.binding").value == "16 of 64"


def test_nothing_of_virtual_nodes(tmp_path: Path) -> None:
    assert probe(node(tmp_path, {"virtual": True, "ranks": 999})).rows == ()


def test_on_this_machine(tmp_path: Path) -> None:
    assert probe(node(tmp_path)._replace(root="/")).facts["usable_cores"] >= 1
