"""A file system that is not mounted on some nodes, by what all of them saw."""

from __future__ import annotations

import pytest

from worldsize.common.named_tuple import Any
from worldsize.state.check_rows import BAD, WARNING
from worldsize.wings.checks.agent.cluster import CheckedNode
from worldsize.wings.checks.agent.judgement.mounts import path_rows

FULL, EMPTY = ["directory", 57, "server:/export", "nfs4"], ["directory", 0, "/dev/sda1", "ext4"]
OTHER = ["directory", 57, "/dev/sda1", "ext4"]


def nodes(*facts: Any, key: str = "inputs.data") -> list[CheckedNode]:
    return [CheckedNode(at, "h%d" % at, "node%d" % at, facts={"paths": {key: fact}}) for at, fact in enumerate(facts)]


def test_alike() -> None:
    assert path_rows(nodes(FULL, FULL, FULL)) == []
    assert path_rows(nodes(EMPTY, EMPTY)) == []
    assert path_rows(nodes(FULL, ["directory", 100, "server2:/export", "nfs"])) == []


def test_directory_that_is_empty_on_one_node() -> None:
    (row,) = path_rows(nodes(FULL, EMPTY, FULL))
    assert (row.node, row.id, row.verdict) == ("node1", "files.inputs", BAD)
    assert row.value == "inputs.data is empty here, and has files on 2 other nodes"
    assert "mount" in row.hint


def test_two_nodes() -> None:
    (row,) = path_rows(nodes(EMPTY, FULL))
    assert (row.node, row.value) == ("node0", "inputs.data is empty here, and has files on node1")


def test_file_that_is_empty_on_one_node() -> None:
    (row,) = path_rows(nodes(["file", 0, "a", "nfs"], ["file", 1, "a", "nfs"]))
    assert (row.node, row.verdict) == ("node0", BAD)
    assert row.value == "inputs.data is empty here, and is not empty on node1"


@pytest.mark.parametrize(
    "facts, label", [((FULL, OTHER, FULL), "node1"), ((FULL, OTHER), "node1"), ((OTHER, FULL), "node0")]
)
def test_another_file_system(facts: Any, label: str) -> None:
    (row,) = path_rows(nodes(*facts))
    assert (row.node, row.verdict) == (label, WARNING)
    assert row.value == "inputs.data is on ext4 here, and on nfs elsewhere"


def test_nothing_is_said_where_neither_is_the_right_one() -> None:
    assert path_rows(nodes(FULL, ["directory", 5, "x", "lustre"])) == []
    assert path_rows(nodes(OTHER, ["directory", 5, "x", "xfs"])) == []


def test_outputs_may_be_empty_on_some_nodes() -> None:
    assert path_rows(nodes(FULL, EMPTY, key="outputs.model")) == []


def test_automounts_are_of_no_kind_yet() -> None:
    assert path_rows(nodes(FULL, ["directory", 3, "map", "autofs"])) == []


def rows_of(seen: dict[str, Any]) -> Any:
    """The rows where node1 has seen this, and node0 all that is right."""
    whole = CheckedNode(0, "h0", "node0", facts={"paths": dict.fromkeys(seen, FULL)})
    return path_rows([whole, CheckedNode(1, "h1", "node1", facts={"paths": seen})])


def test_several_paths_of_a_node_are_one_row() -> None:
    (row,) = rows_of({"a": OTHER, "b": EMPTY, "c": EMPTY, "d": EMPTY, "e": FULL})
    assert row.verdict == BAD
    assert row.value.startswith("b is empty here")
    assert row.value.endswith("; and 1 more")
    (row,) = rows_of({"a": OTHER, "b": EMPTY, "c": EMPTY})
    assert "more" not in row.value


@pytest.mark.parametrize(
    "fact",
    [None, 3, "x", [], ["directory"], ["directory", "57", "a", "b"], [["directory"], 1, "a", "b"],
     ["missing", 0, "", ""], ["error", 0, "", ""], ["directory", 1, None, None], {"a": 1}],
)  # fmt: skip
def test_strange_facts_say_nothing(fact: Any) -> None:
    assert path_rows(nodes(FULL, fact)) == []


@pytest.mark.parametrize("paths", [None, [], "x", 5])
def test_nodes_without_facts(paths: Any) -> None:
    assert (
        path_rows([*nodes(FULL), CheckedNode(1, "h", "node1", facts={"paths": paths}), CheckedNode(2, "i", "j")]) == []
    )


def test_sixty_four_nodes() -> None:
    rows = path_rows(nodes(*[EMPTY if at % 8 == 5 else FULL for at in range(64)]))
    assert [row.node for row in rows] == ["node%d" % at for at in range(64) if at % 8 == 5]
