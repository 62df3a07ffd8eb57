"""--rank, --node, --grep: what they choose, and how they refuse."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from worldsize.errors import UsageError
from worldsize.logs.selection import compile_grep, parse_nodes, parse_numbers, select_ranks
from worldsize.plan.plan import NodePlan, RankPlan

NODES = tuple(NodePlan(node, tuple(RankPlan(node * 4 + i, i) for i in range(4))) for node in range(3))


@pytest.mark.parametrize(
    ("spec", "ranks"),
    [("0", (0,)), ("0,5,8-11", (0, 5, 8, 9, 10, 11)), (" 3 , 1-2 ", (1, 2, 3)), ("2,2,1-3", (1, 2, 3)), ("4-4", (4,))],
)
def test_ranks(spec, ranks):
    assert parse_numbers(spec, 12, "rank") == ranks


@pytest.mark.parametrize(
    "spec", ["12", "0-12", "", ",", "0,", "a", "-1", "1-", "3-1", "1.5", "²", "٣", "0-99999999999999"]
)
def test_refused_ranks_name_the_valid_ones(spec):
    with pytest.raises(UsageError, match="ranks are 0-11"):
        parse_numbers(spec, 12, "rank")


@given(st.text(max_size=20), st.integers(1, 100))
def test_any_words_give_ranks_or_a_usage_error(spec, world_size):
    try:
        ranks = parse_numbers(spec, world_size, "rank")
    except UsageError:
        return
    assert ranks and all(0 <= rank < world_size for rank in ranks)


def test_nodes_stand_for_their_ranks():
    assert parse_nodes("1", NODES) == (4, 5, 6, 7)
    assert parse_nodes("0,2", NODES) == (0, 1, 2, 3, 8, 9, 10, 11)
    with pytest.raises(UsageError, match="nodes are 0-2"):
        parse_nodes("3", NODES)


def test_both_choose_what_both_name():
    assert select_ranks(NODES) == tuple(range(12))
    assert select_ranks(NODES, node="2") == (8, 9, 10, 11)
    assert select_ranks(NODES, rank="0-5", node="1") == (4, 5)
    with pytest.raises(UsageError, match="node 1 has ranks 4-7"):
        select_ranks(NODES, rank="0", node="1")


def test_a_bad_pattern_is_shown_with_its_place():
    with pytest.raises(UsageError, match=r"--grep: not a regular expression: .* at position 3"):
        compile_grep("abc(")
    assert compile_grep("lo+ss").search("a looss")


@pytest.mark.parametrize("pattern", ["*", "(?P<a>x)(?P<a>y)", "[b-a]", "\\", "a{99999999999}", "(" * 5000, "(?<=a+)b"])
def test_no_pattern_ends_in_a_traceback(pattern):
    with pytest.raises(UsageError):
        compile_grep(pattern)
