"""Shares of the files of tests."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st
from scripts.testing.shares import share_of

sizes = st.dictionaries(st.text("abc", min_size=1), st.integers(0, 100))


@given(sizes, st.integers(1, 5))
def test_each_file_is_in_one_share(sizes: dict[str, int], count: int) -> None:
    shares = [share_of(sizes, number, count) for number in range(count)]
    assert sorted(path for share in shares for path in share) == sorted(sizes)
    assert all(share == [path for path in sizes if path in share] for share in shares)


@given(sizes, st.integers(1, 5))
def test_shares_are_about_equal(sizes: dict[str, int], count: int) -> None:
    loads = [sum(sizes[path] for path in share_of(sizes, number, count)) for number in range(count)]
    assert max(loads) - min(loads) <= max(sizes.values(), default=0)


def test_one_share_is_all() -> None:
    assert share_of({"b": 1, "a": 2}, 0, 1) == ["b", "a"]
