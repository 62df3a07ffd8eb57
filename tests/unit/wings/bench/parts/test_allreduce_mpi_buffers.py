"""The buffers of MPI's ranks, with an MPI of one rank that does what the test says."""

from __future__ import annotations

import sys
from array import array
from collections.abc import Callable
from types import ModuleType, SimpleNamespace
from typing import Any

import allreduce_reports  # noqa: F401  # puts the ranks' programs on the path
import pytest

Reduce = Callable[[Any], None]


class World:
    """COMM_WORLD of one rank. `change` does to the result what a wrong library would."""

    def __init__(self) -> None:
        self.change: Reduce = lambda buffer: None

    def Get_rank(self) -> int:
        return 0

    def Get_size(self) -> int:
        return 1

    def Allreduce(self, here: Any, there: list[Any]) -> None:
        buffer, count, _ = there
        if here is not IN_PLACE:
            buffer[:count] = here[0][:count]
        self.change(buffer)

    def allreduce(self, value: int) -> int:
        return value

    def allgather(self, value: str) -> list[str]:
        return [value]


IN_PLACE = object()


@pytest.fixture
def world(monkeypatch: pytest.MonkeyPatch) -> World:
    fake: Any = ModuleType("mpi4py")
    made = World()
    fake.MPI = SimpleNamespace(
        COMM_WORLD=made, IN_PLACE=IN_PLACE, FLOAT="f", DOUBLE="d", get_vendor=lambda: ("Open MPI", (4, 1, 4))
    )
    monkeypatch.setitem(sys.modules, "mpi4py", fake)
    monkeypatch.delitem(sys.modules, "allreduce.by_mpi", raising=False)
    return made


def reducer(dtype: str, largest: int) -> Any:
    program = __import__("allreduce.by_mpi", fromlist=["by_mpi"])
    sys.modules.pop("allreduce.by_mpi")
    return program.MpiReducer(dtype, largest)


COUNTS = [1, 2, 3, 1000, (1 << 18) - 1, 1 << 18, (1 << 18) + 5]


@pytest.mark.parametrize("count", COUNTS)
@pytest.mark.parametrize("out", [False, True])
def test_right_sums_are_right_to_the_last_element(world: World, count: int, out: bool) -> None:
    assert reducer("float32", 4 << 19).count_wrong(count, out) == 0


@pytest.mark.parametrize("count", COUNTS)
@pytest.mark.parametrize("out", [False, True])
def test_each_wrong_element_is_counted(world: World, count: int, out: bool) -> None:
    def damage(buffer: array[float]) -> None:
        for index in {0, count // 2, count - 1}:
            buffer[index] = float("nan")

    world.change = damage
    assert reducer("float64", 8 << 19).count_wrong(count, out) == len({0, count // 2, count - 1})


def test_what_lies_behind_the_size_is_not_looked_at(world: World) -> None:
    def damage(buffer: array[float]) -> None:
        buffer[10] = 7.0

    world.change = damage
    assert reducer("float32", 1 << 10).count_wrong(10, False) == 0


def test_zeros_are_as_many_as_are_reduced(world: World) -> None:
    made = reducer("float32", 4 << 19)
    made.count_wrong(1 << 19, False)
    made.zero((1 << 18) + 3)
    assert made._buffer.count(0.0) == (1 << 18) + 3 and made._buffer[(1 << 18) + 3] != 0


def test_too_large_a_size_ends_the_rank_before_it_is_taken(world: World) -> None:
    with pytest.raises(SystemExit, match="GiB: the ranks of this machine, 1, need "):
        reducer("float32", 1 << 50)
