"""What a check found, as people and programs get it."""

from __future__ import annotations

import pytest

from worldsize.cli.check_results import CheckResults, result_lines, values_text
from worldsize.state.check_rows import BAD, OK, UNKNOWN, WARNING, CheckRow

NODES = ("node1", "node2", "node3", "node4")


def results(*rows: CheckRow) -> CheckResults:
    return CheckResults("20260101-000000-000abc", 1.4, NODES, rows)


def free(node: str, value: str) -> CheckRow:
    return CheckRow(node, "files.space", "the runs' file system", value, OK)


REFUSED = CheckRow("node3", "network.port", "the head's port", "refused", BAD, "open ports 20000 to 21000")
FOUND = results(
    *map(free, NODES, ("120 GB free", "310 GB free", "200.5 GB free", "120 GB free")),
    CheckRow("node2", "limits.memlock", "memlock", "64 KiB", WARNING),
    CheckRow("", "clock", "the clocks", "within 0.3 ms", OK),
    CheckRow("node1", "gpu.ecc", "the GPUs' health", "late", UNKNOWN, "it took longer than 20 s"),
    REFUSED,
)


def test_the_worst_comes_first_and_what_is_fine_is_one_line_for_each_id() -> None:
    assert result_lines(FOUND) == [
        "bad      network.port    node3: the head's port: refused (open ports 20000 to 21000)",
        "warning  limits.memlock  node2: memlock: 64 KiB",
        "unknown  gpu.ecc         node1: the GPUs' health: late (it took longer than 20 s)",
        "ok       files.space     4 nodes: 120 to 310 GB free",
        "ok       clock           the clocks: within 0.3 ms",
        "node3: bad; 8 rows: 5 ok, 1 unknown, 1 warning, 1 bad (1.4 s on 4 nodes)",
    ]


def test_nodes_of_which_the_same_is_bad_are_one_line() -> None:
    lines = result_lines(results(*(REFUSED._replace(node="n%d" % node) for node in range(6))))
    assert lines[0].startswith("bad      network.port  n0, n1, n2, n3 and 2 more: the head's port: refused")


def test_as_data() -> None:
    assert FOUND.verdict == BAD and FOUND.bad_nodes() == ["node3"] and FOUND.bad_everywhere() == []
    data = FOUND.data()
    assert (data["run"], data["nodes"], data["verdict"]) == ("20260101-000000-000abc", list(NODES), "bad")
    assert list(data["rows"][0]) == ["node", "id", "what", "value", "verdict", "hint"] and len(data["rows"]) == 8


def test_what_is_bad_of_no_node() -> None:
    script = CheckRow("", "script.not_distributed", "train.py:7", "2 separate trainings would run", BAD)
    assert results(script, REFUSED).bad_everywhere() == ["script.not_distributed"]


def test_without_nodes() -> None:
    found = CheckResults(None, 0.0, (), ())
    assert result_lines(found) == ["0 rows"] and found.verdict == OK


@pytest.mark.parametrize(
    ("values", "text"),
    [
        (["8"], "8"),
        (["8", "8"], "8"),
        (["8", "10", "9"], "8 to 10"),
        (["0.3 ms", "12 ms"], "0.3 to 12 ms"),
        (["up to 3 s", "up to 1 s"], "up to 1 to 3 s"),
        (["16,152,321 free", "900 free", "1,000 free"], "900 to 16,152,321 free"),
        (["1 KiB", "1 GiB"], "1 KiB; 1 GiB"),
        (["1.2.3", "1.2.4"], "1.2.3; 1.2.4"),
        (["a", "b", "c", "d"], "a; b; c; …"),
        (["", "1"], "; 1"),
        (["9" * 400, "1"], "1 to " + "9" * 400),
    ],
)
def test_several_values_as_one(values: list[str], text: str) -> None:
    assert values_text(values) == text
