"""Nodes and partitions as sinfo prints them, recorded and by every release's habits."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from slurm_fakes import FakeSlurm

from worldsize.compute.slurm.cluster import gpus_of, node_rows, nodes, partition_rows, partitions
from worldsize.errors import SubmitAgain

NODES = (
    """
node1|mixed|main|3/5/0/8|16000|300|gpu:h100:4|gpu:h100:2(IDX:0-1)|none|
node1|mixed|low|3/5/0/8|16000|300|gpu:h100:4|gpu:h100:2(IDX:0-1)|none|
node2|idle|main|0/8/0/8|16000|0|gpu:h100:4(S:0-1)|gpu:h100:0(IDX:N/A)|none|
node4|drained|main|0/0/8/8|16000|0|gpu:h100:4|gpu:h100:0(IDX:N/A)|bad cable | "x"|
node5|down*|main|0/0/8/8|16000|0|gpu:4|gpu:0|Not responding|
node6|idle~|cloud|0/8/0/8|16000|0|gpu:4|gpu:(null):0(IDX:N/A)|none|
node7|allocated+|main|8/0/0/8|16000|16000|(null)|gpu:0|none|
node8|mixed-|main|1/7/0/8|16000|0|gpu:a100:2,gpu:a30:2,shard:8|gpu:a100:1(IDX:0),gpu:a30:0,shard:0|none|
""".strip()
    .replace("|", "\x1f")
    .replace("cable \x1f", "cable |")
    + "\n"
)

PARTITIONS = (
    """
main*|up|infinite|1-infinite|4|gpu:h100:4|
short|up|2:00|1-infinite|4|gpu:h100:4|
cpu|up|1:00:00|1-2|4|(null)|
mixed|up|1-00:00:00|1-16|10|gpu:a100:4(S:0-1)|
mixed|up|1-00:00:00|1-16|2|gpu:a100:8|
old|down|infinite|1|0|(null)|
closed|inact|infinite|1-infinite|1|gpu:2|
""".strip().replace("|", "\x1f")
    + "\n"
)


@pytest.fixture
def fake(tmp_path: Path) -> FakeSlurm:
    return FakeSlurm(tmp_path)


def test_nodes(fake: FakeSlurm) -> None:
    fake.set(sinfo=NODES)
    found = {row.name: row for row in nodes(fake.run)}
    assert list(found) == ["node1", "node2", "node4", "node5", "node6", "node7", "node8"]
    first = found["node1"]
    assert first.groups == ("main", "low")
    assert (first.state, first.usable, first.gpu_type) == ("mixed", True, "h100")
    assert (first.gpus, first.gpus_free) == (4, 2)
    assert (first.cpus, first.cpus_free) == (8, 5)
    assert (first.memory, first.memory_free, first.reason) == (16000, 15700, "")
    assert found["node2"].gpus_free == 4
    assert [call[0] for call in fake.calls()] == ["sinfo"]


def test_nodes_that_take_no_jobs_have_nothing_free() -> None:
    found = {row.name: row for row in node_rows(NODES)}
    assert found["node4"].reason == 'bad cable | "x"'
    assert (found["node4"].state, found["node4"].usable, found["node4"].gpus_free) == ("drained", False, 0)
    assert (found["node5"].state, found["node5"].note, found["node5"].gpus_free) == ("down", "not responding", 0)
    assert (found["node5"].gpus, found["node5"].gpu_type) == (4, "")
    assert (found["node6"].note, found["node6"].usable, found["node6"].gpus_free) == ("powered down", True, 4)
    assert (found["node7"].note, found["node7"].gpus_free, found["node7"].cpus_free) == ("a job is ending", 0, 0)
    assert (found["node8"].gpu_type, found["node8"].gpus, found["node8"].gpus_free) == ("a100,a30", 4, 3)


def test_partitions(fake: FakeSlurm) -> None:
    fake.set(sinfo=PARTITIONS)
    found = {row.name: row for row in partitions(fake.run)}
    assert "--local" in fake.calls()[0]
    main, short, cpu = found["main"], found["short"], found["cpu"]
    assert (main.default, main.up, main.max_time, main.max_nodes, main.nodes) == (True, True, None, None, 4)
    assert main.gpus_per_node == 4
    assert (short.default, short.max_time) == (False, 120)
    assert (cpu.max_time, cpu.max_nodes, cpu.gpus_per_node) == (3600, 2, 0)
    assert not found["old"].up
    assert not found["closed"].up


def test_a_partition_of_different_nodes_tells_the_most() -> None:
    mixed = {row.name: row for row in partition_rows(PARTITIONS)}["mixed"]
    assert (mixed.nodes, mixed.gpus_per_node, mixed.max_nodes) == (12, 8, 16)


@pytest.mark.parametrize(
    ("gres", "expected"),
    [
        ("gpu:h100:4(S:0-1)", ("h100", 4)),
        ("gpu:4", ("", 4)),
        ("gpu:4(S:0)", ("", 4)),
        ("gpu:tesla:2(IDX:0,2)", ("tesla", 2)),
        ("gpu:(null):0(IDX:N/A)", ("", 0)),
        ("gpu:(null):3(IDX:0-1,3)", ("", 3)),
        ("gpu:a100:2(S:0),gpu:a30:2(S:1),nvme:1T,mps:400", ("a100,a30", 4)),
        ("gpu:nvidia_a100_80gb_pcie:4(S:0-3)", ("nvidia_a100_80gb_pcie", 4)),
        ("gpu:a100_1g.5gb:7", ("a100_1g.5gb", 7)),
        ("craynetwork:4,gpu:8", ("", 8)),
        ("gres:gpu:2", ("", 2)),
        ("gres:gpu:h100:2", ("h100", 2)),
        ("gres/gpu:2", ("", 2)),
        ("gres/gpu:h100:2,gres/nvme:1", ("h100", 2)),
        ("gres/gpu=2", ("", 2)),
        ("(null)", ("", 0)),
        ("", ("", 0)),
        ("nvme:2", ("", 0)),
    ],
)
def test_gpus(gres: str, expected: tuple[str, int]) -> None:
    assert gpus_of(gres) == expected


def test_a_cluster_that_is_away_raises(fake: FakeSlurm) -> None:
    fake.mode("sinfo", "away")
    with pytest.raises(SubmitAgain):
        nodes(fake.run)


@given(st.text(alphabet="ab1:/*~-,()\x1f\n |", max_size=300))
def test_any_text_is_read_without_an_error(text: str) -> None:
    node_rows(text)
    partition_rows(text)
