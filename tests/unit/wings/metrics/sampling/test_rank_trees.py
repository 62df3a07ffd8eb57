"""Which processes belong to which rank, by recorded trees of processes."""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

from worldsize.agent.launchers.rank_process import Process
from worldsize.wings.metrics.agent.process_use import ProcessUse
from worldsize.wings.metrics.agent.rank_trees import ProcessTable, RankTrees

AGENT = 1


class Row(NamedTuple):
    """A process: its parent, its session, its WORLDSIZE_RANK, its state."""

    parent: int
    session: int
    rank: str = ""
    state: str = "S"
    started: int = 100


class Machine:
    """A process table; `asked` are those whose environment was read."""

    def __init__(self, rows: dict[int, Row]) -> None:
        self.rows = rows
        self.asked: list[int] = []

    def table(self) -> ProcessTable:
        return ProcessTable(self.trees, lambda: self.below(AGENT), self.read, self.variable)

    def below(self, pid: int) -> list[int]:
        return [each for each, row in self.rows.items() if row.parent == pid]

    def trees(self, roots: Iterable[int]) -> list[int]:
        front = list(roots)
        return front + (self.trees([child for pid in front for child in self.below(pid)]) if front else [])

    def read(self, pid: int) -> ProcessUse | None:
        row = self.rows.get(pid)
        return ProcessUse(row.state, row.parent, row.session, row.started, 1, 1, 0, 0, 0) if row else None

    def variable(self, pid: int, name: str) -> str:
        assert name == "WORLDSIZE_RANK"
        self.asked.append(pid)
        return self.rows[pid].rank


def process(*ranks: int) -> Process:
    return Process(ranks, (), {}, "", ())


def look(trees: RankTrees, running: dict[int, Process], spared: Iterable[int] = ()) -> dict[int, list[int]]:
    found = trees.look(running, frozenset(spared))
    return {rank: sorted(uses) for rank, uses in sorted(found.items())}


def test_a_rank_has_its_process_and_all_below_it() -> None:
    machine = Machine({10: Row(AGENT, 10), 11: Row(10, 10), 12: Row(11, 12), 20: Row(AGENT, 20)})
    trees = RankTrees(machine.table())
    assert look(trees, {10: process(4), 20: process(5)}) == {4: [10, 11, 12], 5: [20]}
    assert machine.asked == []


def test_an_orphan_belongs_to_the_rank_of_its_session() -> None:
    rows = {10: Row(AGENT, 10), 30: Row(AGENT, 10), 31: Row(30, 30), 40: Row(AGENT, 40), 50: Row(AGENT, 10)}
    assert look(RankTrees(Machine(rows).table()), {10: process(0)}, spared=[50]) == {0: [10, 30, 31]}


def test_what_has_ended_meanwhile_is_left_out() -> None:
    assert look(RankTrees(Machine({10: Row(AGENT, 10)}).table()), {10: process(0), 99: process(1)}) == {0: [10]}
    assert look(RankTrees(Machine({}).table()), {}) == {}


LAUNCHED = {
    10: Row(AGENT, 10, "4"),  # the launcher, with the first rank's environment
    11: Row(10, 11, "4"),
    12: Row(10, 12, "5"),
    13: Row(12, 12, "5"),
    14: Row(10, 14, "6"),
}


def test_a_launchers_ranks_are_told_by_their_environment_once_each() -> None:
    machine = Machine(dict(LAUNCHED))
    trees = RankTrees(machine.table())
    running = {10: process(4, 5, 6)}
    assert look(trees, running) == {4: [10, 11, 12, 13, 14]}
    assert machine.asked == []
    told = {4: [10, 11], 5: [12, 13], 6: [14]}
    assert look(trees, running) == told
    assert sorted(machine.asked) == [10, 11, 12, 14]
    assert look(trees, running) == told
    assert sorted(machine.asked) == [10, 11, 12, 14]


def test_a_process_that_waits_for_a_disk_is_asked_later() -> None:
    machine = Machine({10: LAUNCHED[10], 12: LAUNCHED[12]._replace(state="D")})
    trees = RankTrees(machine.table())
    running = {10: process(4, 5)}
    assert [look(trees, running) for _ in range(3)] == [{4: [10, 12]}] * 3
    assert 12 not in machine.asked
    machine.rows[12] = LAUNCHED[12]
    assert look(trees, running) == {4: [10], 5: [12]}


def test_a_number_that_is_used_again_is_asked_again() -> None:
    machine = Machine({10: LAUNCHED[10], 12: LAUNCHED[12]})
    trees = RankTrees(machine.table())
    running = {10: process(4, 5, 6)}
    look(trees, running)
    look(trees, running)
    machine.rows[12] = Row(10, 12, "6", started=200)
    look(trees, running)
    assert look(trees, running) == {4: [10], 6: [12]}


def test_what_tells_nonsense_belongs_to_the_first_rank() -> None:
    for rank in ("", "-1", "9", "²", "x" * 5000):
        machine = Machine({10: LAUNCHED[10], 12: Row(10, 12, rank)})
        trees = RankTrees(machine.table())
        assert [look(trees, {10: process(4, 5)}) for _ in range(2)] == [{4: [10, 12]}] * 2
