"""Ranks that share cores or GPUs, and the tables of a benchmark."""

from __future__ import annotations

import pytest

from worldsize.state.node_facts import NodeFacts
from worldsize.wings.bench import fact_tables, session
from worldsize.wings.bench.fact_tables import hardware_table, software_table
from worldsize.wings.bench.oversubscription import find_oversubscription
from worldsize.wings.bench.result import Measurement
from worldsize.wings.bench.worlds import World


def node(number: int, cores: int, gpus: int = 0, machine: str = "") -> NodeFacts:
    return NodeFacts(number, "n%d" % (number + 1), (("CPU", "EPYC"),), (), cores, gpus, machine)


@pytest.mark.parametrize(
    ("nodes", "ranks", "threads", "found"),
    [
        ([], 8, 8, ""),
        ([node(0, 8)], 8, None, ""),
        ([node(0, 8)], 4, 2, ""),
        ([node(0, 0)], 64, 64, ""),
        ([node(0, 2)], 4, None, "oversubscribed: 4 ranks × 1 thread on 2 cores of n1"),
        ([node(0, 2)], 1, 4, "oversubscribed: 1 rank × 4 threads on 2 cores of n1"),
        ([node(0, 1)], 2, 1, "oversubscribed: 2 ranks × 1 thread on 1 core of n1"),
        ([node(0, 8), node(1, 2)], 4, 1, "oversubscribed: 4 ranks × 1 thread on 2 cores of n2"),
        ([node(0, 2, machine="m"), node(1, 2, machine="m")], 1, 1, ""),
        (
            [node(0, 2, machine="m"), node(1, 2, machine="m")],
            2,
            1,
            "oversubscribed: 4 ranks × 1 thread on 2 cores of n1 (2 virtual nodes)",
        ),
        ([node(0, 2, machine="m"), node(1, 2, machine="k")], 2, 1, ""),
        ([node(0, 2), node(1, 2)], 2, 1, ""),
        ([node(0, 96, 8)], 8, 12, ""),
        ([node(0, 96, 4)], 8, 1, "oversubscribed: 8 ranks on 4 GPUs of n1"),
        ([node(0, 2, 1)], 4, 1, "oversubscribed: 4 ranks on 1 GPU of n1"),
        (
            [node(0, 96, 4, "m"), node(1, 96, 4, "m")],
            4,
            1,
            "oversubscribed: 8 ranks on 4 GPUs of n1 (2 virtual nodes)",
        ),
        ([NodeFacts(0, "", cores=1)], 2, 1, "oversubscribed: 2 ranks × 1 thread on 1 core"),
    ],
)
def test_oversubscription(nodes: list[NodeFacts], ranks: int, threads: int | None, found: str) -> None:
    assert find_oversubscription(nodes, ranks, threads) == found


@pytest.mark.parametrize(
    ("device", "local", "gpus", "said"),
    [
        ("A100", True, 1, "oversubscribed: 4 ranks on 1 GPU of n1"),
        ("CPU", True, 0, ""),
        ("CPU", False, 1, ""),
    ],
)
def test_ranks_that_compute_on_cpus_share_no_gpu(device: str, local: bool, gpus: int, said: str) -> None:
    measured = Measurement(World(1, 4), rate=1.0, details={"device": device})
    found = session._with_shares(measured, [node(0, 8, gpus=1)], local)
    assert (found.gpus, found.oversubscribed) == (gpus, said)


def test_the_two_tables() -> None:
    assert hardware_table([node(0, 2)]) == (("nodes", "1"), ("CPU", "EPYC"))
    assert software_table([node(0, 2)], {"framework": "torch 2.7.1"}) == (("framework", "torch 2.7.1"),)


def test_an_installation_without_facts(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(fact_tables, "find_provider", lambda kind: None)
    assert hardware_table([node(0, 2)]) == ()
    assert software_table([], {"framework": "torch 2.7.1"}) == (("framework", "torch 2.7.1"),)
