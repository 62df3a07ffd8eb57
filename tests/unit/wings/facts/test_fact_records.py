"""The files that agents write of nodes, read by whoever looks at a run: whole, damaged, and made to harm."""

from __future__ import annotations

import json
import os
import sys
import time
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from recorded_machines import POWER, put, put_interface, put_nvidia

from worldsize.agent.posix.processes import host_name
from worldsize.common.atomic_files import write_json
from worldsize.plan.run_paths import RunPaths
from worldsize.state.node_facts import NodeFacts
from worldsize.wings.facts import local_machine, records
from worldsize.wings.facts.agent import program
from worldsize.wings.facts.agent.gpus import GpuFacts
from worldsize.wings.facts.agent.program import Order, write_facts, write_hardware
from worldsize.wings.facts.provider import read_facts
from worldsize.wings.facts.records import read_node_files

WHOLE: dict[str, Any] = {
    "version": 1,
    "nodes": [0],
    "host": "n1",
    "machine": "m1",
    "cores": 4,
    "gpus": 0,
    "hardware": [["CPU", "POWER9, 4 cores"]],
    "software": [["Python", "3.11.7"]],
}
FACTS = NodeFacts(0, "n1", (("CPU", "POWER9, 4 cores"),), (("Python", "3.11.7"),), 4, 0, "m1")


@pytest.fixture
def paths(tmp_path: Path) -> RunPaths:
    paths = RunPaths(str(tmp_path / "run"))
    os.makedirs(paths.facts_dir)
    return paths


def put_record(paths: RunPaths, node: int = 0, **changed: Any) -> None:
    write_json(paths.node_facts(node), {**WHOLE, "nodes": [node], **changed})


def test_what_the_process_writes_is_read(tmp_path: Path, paths: RunPaths) -> None:
    put(tmp_path, {"proc/cpuinfo": POWER, "proc/sys/kernel/random/boot_id": "m1\n"})
    put_interface(tmp_path, "eth0")
    os.rmdir(paths.facts_dir)
    order = Order(paths.node_facts(3), (3, 4), 0, ("train",), "/", {"PATH": "/nowhere"}, False)
    write_hardware(order, str(tmp_path))
    hardware_alone = read_node_files(paths)
    write_facts(order, {}, str(tmp_path))
    first, second = read_node_files(paths)
    assert (hardware_alone[0].complete, first.complete) == (False, True)
    assert hardware_alone[0]._replace(software=first.software, complete=True) == first
    assert (first.node_rank, second.node_rank) == (3, 4)
    assert first._replace(node_rank=4) == second
    assert (first.host, first.machine, first.gpus) == (host_name(), "m1", 0)
    assert first.cores >= 1
    assert dict(first.hardware)["network"] == "eth0 25 Gb/s"
    assert os.stat(paths.node_facts(3)).st_mode & 0o777 == 0o600


def test_of_ranks_in_an_image_nothing_is_told_but_that(tmp_path: Path, paths: RunPaths) -> None:
    put(tmp_path, {"etc/os-release": "PRETTY_NAME=Debian\n"})
    variables = {"PATH": os.environ["PATH"]}
    write_facts(Order(paths.node_facts(0), (0,), 0, ("apptainer", "exec"), "/", variables, False), {}, str(tmp_path))
    assert read_node_files(paths)[0].software == (("system", "Debian; ranks in an image"),)


def test_a_gpu_is_told_in_a_second_look(tmp_path: Path, paths: RunPaths, monkeypatch: pytest.MonkeyPatch) -> None:
    """What a driver that hangs does not tell takes nothing of the rest away."""
    put_nvidia(tmp_path, "Tesla V100-SXM2-32GB")
    seen: list[Any] = []

    def ask(environ: Any, root: str) -> list[GpuFacts]:
        seen.extend(read_node_files(paths))
        return [GpuFacts("GPU-0", "Tesla V100-SXM2-32GB", 32 << 30)]

    monkeypatch.setattr(program, "find_gpus", ask)
    write_facts(Order(paths.node_facts(0), (0,), 0, (), "/", {"PATH": "/nowhere"}), {}, str(tmp_path))
    (facts,) = read_node_files(paths)
    assert (seen[0].gpus, seen[0].complete, facts.gpus, facts.complete) == (0, False, 1, True)
    assert "GPU" not in dict(seen[0].hardware)
    assert dict(facts.hardware)["GPU memory"] == "32 GiB"
    assert dict(facts.software)["driver"] == "NVIDIA 535.104.05"


def test_nodes_in_their_order(paths: RunPaths) -> None:
    for node in (10, 2, 0):
        put_record(paths, node)
    assert [each.node_rank for each in read_node_files(paths)] == [0, 2, 10]
    assert read_facts(paths)[0] == FACTS


def test_a_newer_release_may_add(paths: RunPaths) -> None:
    put_record(paths, later={"x": 1}, hardware=[["CPU", "POWER9, 4 cores", "more"]])
    assert read_node_files(paths) == (FACTS,)


@pytest.mark.parametrize(
    "changed",
    [
        {"version": 2}, {"version": True}, {"nodes": None}, {"nodes": ["0"]}, {"nodes": [-1]}, {"nodes": []},
        {"host": None}, {"cores": -1}, {"cores": 1.5}, {"cores": 10**30}, {"gpus": "8"}, {"hardware": None},
        {"hardware": 5}, {"machine": ["m"]}, {"software": None},
    ],
    ids=str,
)  # fmt: skip
def test_what_cannot_be_understood_is_left_out(paths: RunPaths, changed: dict[str, Any]) -> None:
    put_record(paths, **changed)
    put_record(paths, 1)
    assert [each.node_rank for each in read_node_files(paths)] == [1]


def test_rows_are_bounded(paths: RunPaths) -> None:
    rows = [
        ["CPU", "x" * 9999],
        ["CPU", "second"],
        ["n" * 9999, ""],
        5,
        ["only"],
        [1, 2],
        *([["r%d" % n, "x"] for n in range(999)]),
    ]
    put_record(paths, hardware=rows, host="h" * 9999, machine="m" * 9999)
    (facts,) = read_node_files(paths)
    assert (len(dict(facts.hardware)["CPU"]), len(facts.host), len(facts.machine)) == (500, 500, 500)
    assert len(facts.hardware) < 64


def test_nodes_are_bounded_and_the_first_file_counts(paths: RunPaths) -> None:
    put_record(paths, 0, nodes=[*range(20_000)])
    put_record(paths, 1, nodes=[1], host="other")
    found = read_node_files(paths)
    assert len(found) == 16_384
    assert found[1].host == "n1"


def test_all_files_together_are_bounded(paths: RunPaths, monkeypatch: pytest.MonkeyPatch) -> None:
    """As many links to one file as a directory may hold."""
    put_record(paths, more="x" * 1000)
    size = os.path.getsize(paths.node_facts(0))
    monkeypatch.setattr(records, "_MOST_BYTES", 3 * size)
    for number in range(1, 9):
        put_record(paths, number, more="x" * 1000)
    assert [each.node_rank for each in read_node_files(paths)] == [0, 1, 2]


@pytest.mark.parametrize("what", ["pipe", "directory", "device", "huge", "hole", "nested", "missing"])
def test_what_is_no_file_of_an_agents(paths: RunPaths, what: str) -> None:
    path = Path(paths.node_facts(0))
    if what == "pipe":
        os.mkfifo(path)
    elif what == "directory":
        path.mkdir()
    elif what == "device":
        path.symlink_to("/dev/zero")
    elif what == "huge":
        path.write_text(json.dumps({**WHOLE, "more": "x" * (1 << 19)}))
    elif what == "hole":
        path.touch()
        os.truncate(path, 1 << 40)
    elif what == "nested":
        path.write_text("[" * 200_000)
    put_record(paths, 1)
    assert [each.node_rank for each in read_node_files(paths)] == [1]


@given(st.binary(max_size=300))
def test_junk(tmp_path_factory: pytest.TempPathFactory, data: bytes) -> None:
    paths = RunPaths(str(tmp_path_factory.getbasetemp() / "junk"))
    os.makedirs(paths.facts_dir, exist_ok=True)
    Path(paths.node_facts(0)).write_bytes(data)
    Path(paths.facts_dir, "node-²²²².json").write_bytes(data)
    assert read_node_files(paths) == ()


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=5),
    lambda each: st.lists(each, max_size=4),
)


@given(st.dictionaries(st.sampled_from(sorted(WHOLE)), JSON))
def test_strange_values(tmp_path_factory: pytest.TempPathFactory, changed: dict[str, Any]) -> None:
    paths = RunPaths(str(tmp_path_factory.getbasetemp() / "junk"))
    os.makedirs(paths.facts_dir, exist_ok=True)
    Path(paths.node_facts(0)).write_text(json.dumps({**WHOLE, **changed}))
    for facts in read_node_files(paths):
        assert type(facts.node_rank) is int and type(facts.cores) is int and isinstance(facts.host, str)
        assert all(isinstance(text, str) for row in (*facts.hardware, *facts.software) for text in row)


# runs that were over before anybody had looked


def record(paths: RunPaths, **changed: Any) -> None:
    packages = {"torch": "2.7.1", "nvidia_nccl_cu12": "2.26.2", "numpy": "2.0"}
    value = {"nodes": {host_name(): 2}, "created": time.time(), "python": {"version": "3.12.1", "packages": packages}}
    write_json(paths.record, {**value, **changed})


def test_a_short_run_of_this_machine(paths: RunPaths) -> None:
    record(paths)
    first, second = read_facts(paths)
    assert (first.node_rank, second.node_rank, first.host, first.cores, first.gpus) == (0, 1, host_name(), 0, 0)
    assert first.machine == second.machine != ""
    assert "kernel" in dict(first.hardware) and "cores" not in dict(first.hardware)
    software = dict(first.software)
    assert (software["framework"], software["NCCL"], software["Python"]) == ("torch 2.7.1", "2.26.2", "3.12.1")


def test_a_run_that_was_over_before_its_software_was_known(paths: RunPaths) -> None:
    put_record(paths, software=[], complete=False)
    assert read_facts(paths)[0].software == ()
    record(paths)
    (facts,) = read_facts(paths)
    assert (facts.hardware, facts.cores, dict(facts.software)["framework"]) == (FACTS.hardware, 4, "torch 2.7.1")


@pytest.mark.parametrize(
    "changed",
    [
        {"nodes": None}, {"nodes": {"elsewhere": 1}}, {"nodes": {host_name(): "2"}}, {"nodes": {host_name(): 10**9}},
        {"nodes": {host_name(): -1}}, {"created": 1.0}, {"created": None}, {"created": "now"},
    ],
    ids=str,
)  # fmt: skip
def test_of_others_nothing_is_known(paths: RunPaths, changed: dict[str, Any]) -> None:
    record(paths, **changed)
    assert read_facts(paths) == ()


@pytest.mark.parametrize("python", [None, [], {"packages": [1]}, {"packages": {"torch": 2}, "version": 3}])
def test_a_strange_record(paths: RunPaths, python: Any) -> None:
    record(paths, python=python)
    assert all(name == "system" for name, _ in local_machine.facts_of_this_machine(paths)[0].software)
    write_json(paths.record, [])
    assert read_facts(paths) == ()


def test_this_machine_is_told_with_the_packages_of_a_python() -> None:
    found = local_machine.this_machine(sys.executable, os.getcwd(), os.environ)
    assert found.cores > 0
    assert dict(found.software)["Python"].startswith("3.") and dict(found.hardware)["kernel"].startswith("Linux ")
    assert found.host and found.machine
