"""An all-reduce as tables, sentences and pictures; what is said of the network."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest
from allreduce_reports import MIB, report, result_of, row

from worldsize.wings.bench.allreduce.bandwidth import algorithm_bandwidth, bus_bandwidth
from worldsize.wings.bench.allreduce.network import find_adapters, network_rate_per_rank, network_sentence
from worldsize.wings.bench.allreduce.presentation import charts, sentences, tables
from worldsize.wings.bench.allreduce.report import parse_report
from worldsize.wings.bench.worlds import World

EIGHT_PORTS = "8 × InfiniBand 400 Gb/s (mlx5_0/1 to mlx5_7/1), eth0 25 Gb/s"
GIB = 1 << 30
TWO = World(2, 8)


@pytest.mark.parametrize(("ranks", "bus"), [(1, 0.0), (2, 1.0), (4, 1.5), (8, 1.75)])
def test_bus_bandwidth_is_two_n_minus_one_by_n(ranks: int, bus: float) -> None:
    assert algorithm_bandwidth(10**9, 1.0) == 1.0
    assert bus_bandwidth(10**9, 1.0, ranks) == pytest.approx(bus)


def test_the_table_has_the_columns_of_nccl_tests() -> None:
    (table,) = tables(result_of(World(1, 2), report(row(8, 25e-6), row(MIB, 1e-3, out_seconds=2e-3, out_wrong=0))))
    assert table.headers[:5] == ("size (B)", "count", "type", "redop", "root")
    assert table.rows[0] == ("8", "2", "float", "sum", "-1", *("N/A",) * 4, "25.0", "0.00", "0.00", "0")
    assert table.rows[1][5:] == ("2000.0", "0.52", "0.52", "0", "1000.0", "1.05", "1.05", "0")


def test_sentences_name_the_highest_bandwidth_and_the_time_of_the_smallest() -> None:
    said = sentences(result_of(World(1, 2), report(row(64 * MIB, 0.1), row(MIB, 1e-3), row(8, 25e-6))))
    assert said == ("1x2: at most 1.05 GB/s of bus bandwidth, at 1 MiB; 8 B take 25 µs.",)


def test_a_wrong_sum_has_no_speed() -> None:
    result = result_of(World(1, 2), report(row(wrong=3)), failure="3 elements of the results were wrong")
    assert sentences(result) == ("1x2 failed: 3 elements of the results were wrong.",)
    assert charts(result, PICTURES) == ()
    assert tables(result)[0].rows[0][-1] == "3"


def test_a_result_of_nothing_and_of_rubbish() -> None:
    for details in ({}, {"rows": 3}, report(ranks=0)):
        result = result_of(World(1, 2), details)
        assert (tables(result), charts(result, PICTURES)) == ((), ())
        assert sentences(result) == ("Nothing was measured.",)


PICTURES = SimpleNamespace(Line=lambda *values: values, Chart=lambda **values: values)


def test_pictures_have_a_line_for_each_world() -> None:
    bandwidth, time = charts(result_of(World(1, 2), report(row(8, 1e-5), row(MIB, 1e-3))), PICTURES)
    assert bandwidth["lines"] == (("1x2", (8.0, float(MIB)), pytest.approx((8e-4, MIB / 1e6))),)
    assert time["lines"] == (("1x2", (8.0, float(MIB)), pytest.approx((10, 1000))),)
    assert bandwidth["x_scale"] == "log2"


def said_of(network: str, bus: float, world: World = TWO, **more: Any) -> str:
    """The sentence for a bus bandwidth in GB/s at 1 GiB."""
    seconds = GIB / 1e9 / bus * 2 * (world.ranks - 1) / world.ranks
    values = {"backend": "nccl", "ranks": world.ranks, "gpus": world.ranks, **more}
    return network_sentence(
        world, parse_report(report(row(GIB, seconds), **values)), {"nodes": "2", "network": network}
    )


def test_a_published_measurement_comes_to_its_published_share() -> None:
    """377 GB/s on 4 × 8 B200 with eight adapters of 400 Gb/s are 73 % (stas00/ml-engineering)."""
    assert network_rate_per_rank(377, 4, 32) == pytest.approx(36.5, abs=0.05)
    said = said_of("8 × EFA 400 Gb/s (rdmap0/1 to rdmap7/1)", 377, World(4, 8))
    assert said == (
        "4x8: at 1 GiB each rank sends 36.5 GB/s (292 Gb/s) over the network: "
        "73% of a node's 8 × EFA 400 Gb/s, which is good."
    )


@pytest.mark.parametrize(
    ("bus", "words"),
    [
        (600.0, "80% of a node's 8 × InfiniBand 400 Gb/s, which is good."),
        (450.0, "60% of a node's 8 × InfiniBand 400 Gb/s; good is 70%."),
        (
            75.0,
            "10% of a node's 8 × InfiniBand 400 Gb/s, which is poor: good is 70%; `worldsize check` shows what NCCL",
        ),
    ],
)
def test_the_share_of_the_rate_is_judged(bus: float, words: str) -> None:
    assert words in said_of(EIGHT_PORTS, bus)


@pytest.mark.parametrize(
    ("network", "world", "more", "words"),
    [
        (EIGHT_PORTS, World(2, 1), {}, "of which its ranks need not use all."),
        ("", World(2, 8), {}, "70% of the rate of its adapter is good, below 50% is poor."),
        ("eth0 25 Gb/s", World(2, 8), {}, "70% of the rate of its adapter is good"),
        ("eth0 25 Gb/s", World(2, 1), {"backend": "gloo", "gpus": 0}, "80% of the 25 Gb/s of eth0, for a node."),
        ("eth0", World(2, 1), {"backend": "gloo", "gpus": 0}, "over the network."),
        ("eth0 25 Gb/s, eth1 25 Gb/s", World(2, 1), {"backend": "gloo", "gpus": 0}, "over the network."),
        (EIGHT_PORTS, World(2, 1), {"backend": "mpi", "gpus": 0}, "over the network."),
    ],
)
def test_there_is_no_verdict_where_nobody_knows_what_was_used(
    network: str, world: World, more: dict[str, Any], words: str
) -> None:
    said = said_of(network, 2.5, world, **more)
    assert words in said and "which is" not in said


@pytest.mark.parametrize(
    "network",
    [
        "InfiniBand 400 Gb/s (mlx5_0/1) (n1); InfiniBand 200 Gb/s (mlx5_0/1) (n2)",
        "InfiniBand 400 Gb/s (mlx5_0/1), RoCE 25 Gb/s (mlx5_1/1)",
        "InfiniBand (mlx5_0/1)", "none", "a, b", "4 × InfiniBand 9999999 Gb/s (x)", "((((", ", ,",
    ],
)  # fmt: skip
def test_adapters_that_differ_or_have_no_rate_are_not_guessed(network: str) -> None:
    assert find_adapters(network, "nccl") is None


def test_one_port_is_one_adapter() -> None:
    assert find_adapters("RoCE 100 Gb/s (mlx5_0/1)", "nccl") == ("RoCE", 1, 100.0)
    assert find_adapters("eth0 100 Mb/s", "gloo") == ("eth0", 1, 0.1)


@pytest.mark.parametrize(
    ("nodes", "words"),
    [
        ("2 virtual nodes of one machine", "nothing of this went over a network"),
        ("4 virtual nodes of 2 machines", "what went over the network is not known"),
    ],
)
def test_virtual_nodes_have_no_network(nodes: str, words: str) -> None:
    found = parse_report(report(row(GIB, 1.0), ranks=4))
    assert words in network_sentence(World(2, 2), found, {"nodes": nodes, "network": EIGHT_PORTS})


def test_small_sizes_are_not_judged() -> None:
    found = parse_report(report(row(64 * MIB, 1.0), ranks=4, backend="nccl"))
    assert "is not judged by less than 512 MiB" in network_sentence(World(2, 2), found, {"network": EIGHT_PORTS})
