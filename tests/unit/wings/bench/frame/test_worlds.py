"""World sizes as they are typed."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from worldsize.errors import UsageError
from worldsize.wings.bench.worlds import World, default_worlds, parse_worlds


@pytest.mark.parametrize(
    ("text", "worlds"),
    [
        ("1x1", ["1x1"]),
        ("2x2,1x1,1x2", ["1x1", "1x2", "2x2"]),
        ("1,2,4", ["1x1", "1x2", "1x4"]),
        (" 1X2 , 2×1 ", ["1x2", "2x1"]),
        ("2x1,1x2", ["1x2", "2x1"]),
    ],
)
def test_worlds_are_read_in_the_order_of_their_ranks(text: str, worlds: list[str]) -> None:
    assert list(map(str, parse_worlds(text))) == worlds


@pytest.mark.parametrize(
    "text", ["", "x", "1x", "0x1", "1x0", "-1", "1x2x3", "a", "1,,2", "1x1,1x1", "9999999999x1", "1000x1001"]
)
def test_what_is_no_world_is_refused_with_an_example(text: str) -> None:
    with pytest.raises(UsageError) as raised:
        parse_worlds(text)
    assert raised.value.where == "-w" and raised.value.hint


def test_more_than_64_worlds_are_a_slip() -> None:
    with pytest.raises(UsageError, match="more than 64"):
        parse_worlds(",".join(map(str, range(1, 100))))


@given(st.text(max_size=40))
def test_no_text_ends_in_anything_but_worlds_or_a_usage_error(text: str) -> None:
    try:
        worlds = parse_worlds(text)
    except UsageError:
        return
    assert worlds and all(world.ranks > 0 for world in worlds)


@pytest.mark.parametrize(("most", "ranks"), [(1, [1]), (2, [1, 2]), (6, [1, 2, 4, 6]), (8, [1, 2, 4, 8]), (0, [1])])
def test_usual_worlds_double_up_to_the_machine(most: int, ranks: list[int]) -> None:
    assert [world.ranks for world in default_worlds(most)] == ranks
    assert all(world == World(1, world.ranks) for world in default_worlds(most))
