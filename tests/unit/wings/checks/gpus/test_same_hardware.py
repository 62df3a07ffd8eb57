"""Whether nodes have the same GPUs, ports, cores and memory: who has less is named."""

from __future__ import annotations

import time
from typing import Any

import pytest

from worldsize.state.check_rows import OK, UNKNOWN, WARNING
from worldsize.wings.checks.agent.cluster import CheckedNode
from worldsize.wings.checks.agent.judgement.hardware import hardware_rows


def gpus(count: int, model: str = "H100") -> list[dict[str, Any]]:
    return [{"index": n, "model": model, "memory_mib": 81559} for n in range(count)]


def ports(active: int, down: int = 0, rate: float = 400.0, layer: str = "InfiniBand") -> list[dict[str, Any]]:
    states = ["ACTIVE"] * active + ["DOWN"] * down
    return [{"device": "mlx5_%d" % n, "state": s, "rate_gbps": rate, "layer": layer} for n, s in enumerate(states)]


def rows(*facts: dict[str, Any]) -> list[tuple[str, str, str, str]]:
    nodes = [CheckedNode(rank, "h", "node%d" % rank, facts=each) for rank, each in enumerate(facts)]
    return [(row.node, row.id, row.value, row.verdict) for row in hardware_rows(nodes)]


FULL: dict[str, Any] = {"gpus": gpus(8), "fabric": ports(8), "cores": 96, "memory_mib": 1_900_000}


def test_nodes_that_are_the_same_have_one_row_each_kind() -> None:
    assert rows(*[FULL] * 4) == [
        ("", "same.gpus", "8 × H100 on 4 nodes", OK),
        ("", "same.hardware", "96 cores, 1855 GiB, 3200 Gb/s of InfiniBand", OK),
    ]
    assert rows(FULL) == []
    assert rows({}, {}) == []


def test_ethernet_ports_count_where_there_is_nothing_faster() -> None:
    one, two = (ports(count, layer="Ethernet") for count in (1, 2))
    assert [row[3] for row in rows({"fabric": one}, {"fabric": two})] == [WARNING]
    assert [row[3] for row in rows({"fabric": [*ports(8), *one]}, {"fabric": [*ports(8), *two]})] == [OK]


def test_the_node_with_less_is_named() -> None:
    found = rows(FULL, {**FULL, "gpus": gpus(7), "fabric": ports(7, 1), "cores": 48}, FULL, FULL)
    assert found == [
        ("node1", "same.gpus", "7 × H100", WARNING),
        ("node1", "same.hardware", "48 cores, 2800 Gb/s of InfiniBand", WARNING),
    ]
    assert rows(FULL, {**FULL, "fabric": []}, FULL)[1] == (
        "node1",
        "same.hardware",
        "no active port of InfiniBand",
        WARNING,
    )
    assert rows(FULL, {**FULL, "fabric": ports(8, rate=200.0)})[1][2] == "1600 Gb/s of InfiniBand"


def test_memory_may_differ_by_five_percent_and_more_is_never_wrong() -> None:
    assert rows(FULL, {**FULL, "memory_mib": 1_850_000}, FULL)[1][3] == OK
    assert rows(FULL, {**FULL, "memory_mib": 1_700_000}, FULL)[1][:3] == ("node1", "same.hardware", "1660 GiB")
    assert rows(FULL, {**FULL, "cores": 128, "memory_mib": 9_900_000}, FULL)[1][3] == OK


def test_kinds_of_gpus_without_a_majority_are_told_in_one_row() -> None:
    ((_, _, value, verdict),) = rows({"gpus": gpus(8)}, {"gpus": gpus(8, "A100")})
    assert (value, verdict) == ("node1: 8 × A100; node0: 8 × H100", WARNING)
    assert rows({"gpus": gpus(4)}, {"gpus": []}, {"gpus": gpus(4)}) == [("node1", "same.gpus", "none", WARNING)]
    assert rows({"gpus": []}, {"gpus": []}) == []


def test_a_node_that_has_not_told_is_unknown_where_others_have() -> None:
    assert rows({"gpus": gpus(4)}, {}, {"gpus": gpus(4)}) == [
        ("node1", "same.gpus", "unknown", UNKNOWN),
        ("", "same.gpus", "4 × H100 on 2 nodes", OK),
    ]


@pytest.mark.parametrize("junk", [None, "x", 7, [None, 3], [{"model": None, "rate_gbps": "x"}], float("nan"), -1, True])
def test_strange_facts_are_passed_over(junk: object) -> None:
    rows({"gpus": junk, "fabric": junk, "cores": junk, "memory_mib": junk}, FULL, FULL)
    rows({"fabric": [{"state": "ACTIVE", "layer": "InfiniBand", "rate_gbps": junk}]}, FULL)


def test_a_thousand_nodes_take_no_time() -> None:
    started = time.process_time()
    assert len(rows(*[FULL] * 500, {**FULL, "cores": 1}, *[FULL] * 499)) == 2
    assert time.process_time() - started < 1.0
