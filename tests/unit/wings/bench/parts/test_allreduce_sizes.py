"""`--sizes 8B:1GB`."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from worldsize.errors import UsageError
from worldsize.wings.bench.allreduce.sizes import parse_size, parse_sizes


@pytest.mark.parametrize(
    ("text", "size"),
    [("8", 8), ("8B", 8), ("8b", 8), ("1K", 1024), ("1 kB", 1024), ("2KiB", 2048), ("1MB", 1 << 20), ("1GiB", 1 << 30)],
)
def test_powers_are_those_of_nccl_tests(text: str, size: int) -> None:
    assert parse_size(text) == size


@pytest.mark.parametrize(
    ("text", "factor", "sizes"),
    [
        ("8B:64B", 2, (8, 16, 32, 64)),
        ("8B:63B", 2, (8, 16, 32)),
        ("8B:1KB", 10, (8, 80, 800)),
        ("1MB,8B, 1MB", 2, (8, 1 << 20)),
        ("4:8,8:16", 2, (4, 8, 16)),
        ("8B:8B", 3, (8,)),
    ],
)
def test_ranges_and_lists_ascend_without_duplicates(text: str, factor: int, sizes: tuple[int, ...]) -> None:
    assert parse_sizes(text, factor) == sizes


@pytest.mark.parametrize(
    "text", ["", ",", "8B:", ":8B", "0", "-1", "1.5MB", "8X", "2TB", "1048577MB", "16B:8B", "8:16:32", "٣", "9" * 16]
)
def test_what_is_no_size_is_refused_with_an_example(text: str) -> None:
    with pytest.raises(UsageError) as refused:
        parse_sizes(text, 2)
    assert refused.value.where == "--sizes"


@pytest.mark.parametrize("factor", [0, 1])
def test_a_factor_that_never_ends_is_refused(factor: int) -> None:
    with pytest.raises(UsageError, match="does not make a range"):
        parse_sizes("8B:1GB", factor)


def test_a_list_of_many_sizes_is_refused() -> None:
    with pytest.raises(UsageError, match="more than 200"):
        parse_sizes(",".join(map(str, range(1, 300))), 2)


@given(st.text(max_size=40), st.integers(-1, 5))
def test_rubbish_is_sizes_or_a_usage_error(text: str, factor: int) -> None:
    try:
        sizes = parse_sizes(text, factor)
    except UsageError:
        return
    assert sizes and list(sizes) == sorted(set(sizes)) and sizes[0] > 0 and sizes[-1] <= 1 << 40
