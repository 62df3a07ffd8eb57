"""One table of all nodes."""

from __future__ import annotations

import pytest

from worldsize.state.node_facts import NodeFacts
from worldsize.wings.facts.tables import hardware_table, node_names, software_table


def node(number: int, gpu: str = "", host: str = "", machine: str = "", **software: str) -> NodeFacts:
    hardware = (("CPU", "EPYC"), *((("GPU", gpu),) if gpu else ()))
    return NodeFacts(number, host or "n%d" % (number + 1), hardware, tuple(software.items()), 8, 0, machine)


@pytest.mark.parametrize(
    ("nodes", "rows"),
    [
        ([], ()),
        ([node(0)], (("nodes", "1"), ("CPU", "EPYC"))),
        ([node(0, "A100"), node(1, "A100")], (("nodes", "2"), ("CPU", "EPYC"), ("GPU", "A100"))),
        (
            [node(0, "A100"), node(1, "A100"), node(2, "V100")],
            (("nodes", "3"), ("CPU", "EPYC"), ("GPU", "A100 (n1, n2); V100 (n3)")),
        ),
        (
            [node(0), node(1, "V100"), node(2), node(3), node(4)],
            (("nodes", "5"), ("CPU", "EPYC"), ("GPU", "none (n1, n3–n5); V100 (n2)")),
        ),
        ([node(0, machine="m"), node(1, machine="m")], (("nodes", "2 virtual nodes of one machine"), ("CPU", "EPYC"))),
        (
            [node(0, machine="m"), node(1, machine="m"), node(2, machine="k")],
            (("nodes", "3 virtual nodes of 2 machines"), ("CPU", "EPYC")),
        ),
        ([node(0, machine="m"), node(1, machine="k")], (("nodes", "2"), ("CPU", "EPYC"))),
    ],
)
def test_hardware(nodes: list[NodeFacts], rows: object) -> None:
    assert hardware_table(nodes) == rows


def test_known_rows_stand_in_the_order_of_the_guides() -> None:
    mixed = NodeFacts(0, "n1", (("network", "eth0"), ("later", "x"), ("CPU", "EPYC")))
    assert [name for name, _ in hardware_table([mixed])] == ["nodes", "CPU", "network", "later"]


def test_what_ranks_report_counts() -> None:
    nodes = [node(0, framework="torch 2.7.1", Python="3.11.7"), node(1, framework="torch 2.6.0", Python="3.11.7")]
    assert software_table(nodes) == (("framework", "torch 2.7.1 (n1); torch 2.6.0 (n2)"), ("Python", "3.11.7"))
    reported = {"cuDNN": "9.5", "framework": "torch 2.7.1+cu126", "NCCL": "", "back end": "nccl"}
    assert software_table(nodes, reported) == (
        ("framework", "torch 2.7.1+cu126"),
        ("cuDNN", "9.5"),
        ("Python", "3.11.7"),
        ("back end", "nccl"),
    )
    assert software_table([], {"Python": "3.12"}) == (("Python", "3.12"),)


@pytest.mark.parametrize(
    ("numbers", "text"),
    [
        ([0], "n1"),
        ([0, 1], "n1, n2"),
        ([0, 1, 2, 3], "n1–n4"),
        ([0, 2, 3, 4, 8, 10, 12], "n1, n3–n5, n9, and 2 more"),
    ],
)
def test_names(numbers: list[int], text: str) -> None:
    assert node_names([node(number) for number in numbers]) == text


def test_nodes_without_a_name() -> None:
    assert node_names([NodeFacts(3, "")]) == "node 3"


@pytest.mark.heavy
def test_what_every_node_has_otherwise_is_not_told_of_thousands() -> None:
    text = dict(hardware_table([node(number, "GPU %d" % number) for number in range(5000)]))["GPU"]
    assert text.startswith("GPU 0 (")
    assert text.endswith("; and 4992 more")
