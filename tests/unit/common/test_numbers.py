"""Numbers in a row as spans."""

from __future__ import annotations

from itertools import pairwise

from hypothesis import given
from hypothesis import strategies as st

from worldsize.common.numbers import span_words, spans


@given(st.lists(st.integers(0, 60), unique=True).map(sorted))
def test_spans_hold_the_numbers_and_end_at_gaps(numbers: list[int]) -> None:
    found = list(spans(numbers))
    assert [number for first, last in found for number in range(first, last + 1)] == numbers
    assert all(last + 1 < first for (_, last), (first, _) in pairwise(found))


def test_span_words() -> None:
    assert span_words([]) == []
    assert span_words([0, 1, 2, 5, 7, 8]) == ["0-2", "5", "7-8"]
