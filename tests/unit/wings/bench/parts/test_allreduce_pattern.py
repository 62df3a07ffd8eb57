"""What ranks add up: sums that are exact, and that nothing but the sum of all ranks comes to; what that takes."""

from __future__ import annotations

import struct
from collections.abc import Callable
from pathlib import Path
from typing import Any

import allreduce_reports  # noqa: F401  # puts the ranks' programs on the path
import pytest
from hypothesis import given
from hypothesis import strategies as st

pattern = __import__("allreduce.pattern", fromlist=["pattern"])
memory = __import__("allreduce.memory", fromlist=["memory"])
GIB = 1 << 30


def columns(ranks: int) -> list[tuple[int, ...]]:
    """The parts of all ranks, element by element."""
    return list(zip(*(pattern.parts(rank, ranks) for rank in range(ranks)), strict=True))


@given(st.integers(1, 60))
def test_the_parts_come_to_the_sums(ranks: int) -> None:
    assert [sum(each) for each in columns(ranks)] == pattern.sums(ranks)


@pytest.mark.parametrize("ranks", [2, 3, 4, 7, 64])
def test_no_two_ranks_have_the_same_parts(ranks: int) -> None:
    assert len({tuple(pattern.parts(rank, ranks)) for rank in range(ranks)}) == ranks


BROKEN: dict[str, Callable[[tuple[int, ...]], float]] = {
    "the largest": max,
    "the mean": lambda each: sum(each) / len(each),
    "without the last rank": lambda each: sum(each[:-1]),
    "the first rank twice": lambda each: sum(each) + each[0],
    "nothing reduced": lambda each: each[0],
}


@pytest.mark.parametrize("ranks", [2, 3, 4, 7, 64])
@pytest.mark.parametrize("name", BROKEN)
def test_a_broken_reduction_is_found(name: str, ranks: int) -> None:
    wrong = sum(BROKEN[name](each) != right for each, right in zip(columns(ranks), pattern.sums(ranks), strict=True))
    assert wrong >= len(pattern.sums(ranks)) * min(1.0, 2 / ranks) - 1e-9


def test_the_sums_are_exact_in_sixteen_bits() -> None:
    for value in pattern.sums(1000):
        assert struct.unpack("e", struct.pack("e", value)) == (value,)
        assert struct.pack(">f", value)[2:] == b"\0\0"  # what bfloat16 leaves out


@given(st.integers(1, 5000))
def test_pieces_are_whole_repetitions_and_bounded(ranks: int) -> None:
    values = list(range(3 * ranks))
    assert pattern.repeats(values) >= 1 and pattern.repeats(values) * len(values) <= max(1 << 18, len(values))


def test_more_than_there_is_is_told_in_gibibytes() -> None:
    said = memory.memory_problem(64 * GIB, 2, 4, 23 * GIB)
    assert said.startswith("all-reduce of 64 GiB: the ranks of this machine, 4, need 512 GiB, and 23 GiB are free")
    assert "--sizes" in said


@pytest.mark.parametrize("free", [None, 8 * GIB, 9 * GIB])
def test_what_fits_or_is_not_known_is_no_problem(free: int | None) -> None:
    assert memory.memory_problem(GIB, 2, 4, free) == ""


@pytest.mark.parametrize(
    ("text", "free"),
    [
        ("MemTotal: 9 kB\nMemAvailable:       2048 kB\n", 2 << 20),
        ("MemTotal: 9 kB\n", None),
        ("MemAvailable:\n", None),
        ("MemAvailable: much kB\n", None),
    ],
)
def test_free_memory_is_that_of_the_kernel(tmp_path: Path, text: str, free: Any) -> None:
    path = tmp_path / "meminfo"
    path.write_text(text)
    assert memory.free_memory(str(path)) == free


def test_free_memory_of_a_machine_that_does_not_say(tmp_path: Path) -> None:
    assert memory.free_memory(str(tmp_path / "none")) is None
