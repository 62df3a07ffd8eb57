"""The assignment of processes to the ranks of a node.

A rank that the agent has started has a process of its own. This process and all its descendants belong to the rank, and
so do processes that have lost their parent and stayed in the rank's session. Where a launcher starts the ranks, the
rank of a process is read from its environment. The launcher, and processes without this variable, count for the first
rank of the node. A process that a service of the machine has started, as Slurm's does for srun, is not a descendant of
the agent and is not found.

Standard library only: travels inside agent.pyz (Python >= 3.8).
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence

from worldsize.agent.launchers.rank_process import Process
from worldsize.agent.posix import processes
from worldsize.common.named_tuple import NamedTuple
from worldsize.common.numbers import parse_digits
from worldsize.wings.metrics.agent.process_use import ProcessUse, read_process

_RANK = "WORLDSIZE_RANK"


class ProcessTable(NamedTuple):
    """The functions of the operating system that find processes and read their use; tests replace them."""

    trees: Callable[[Iterable[int]], list[int]] = processes.trees
    children: Callable[[], list[int]] = processes.children
    read: Callable[[int], ProcessUse | None] = read_process
    variable: Callable[[int, str], str] = processes.variable


class RankTrees:
    """The search for the processes of each rank, which each call of `look` repeats."""

    def __init__(self, table: ProcessTable | None = None) -> None:
        self._table = table or ProcessTable()
        self._told: dict[tuple[int, int], int | None] = {}

    def look(self, running: Mapping[int, Process], spared: Collection[int]) -> dict[int, dict[int, ProcessUse]]:
        """Return the resource use of each living process of each rank of the node, by rank and process number.
        `running` are the processes that the agent has started. `spared` are its children that belong to no rank."""
        found: dict[int, dict[int, ProcessUse]] = {}
        seen: dict[tuple[int, int], int | None] = {}
        for pid, process in running.items():
            for rank, each, use in self._owned(self._table.trees([pid]), process.ranks, seen):
                found.setdefault(rank, {})[each] = use
        for pid in self._table.children():
            orphan = self._table.read(pid) if pid not in running and pid not in spared else None
            leader = running.get(orphan.session) if orphan is not None else None
            if leader is not None:
                for rank, each, below in self._owned(self._table.trees([pid]), leader.ranks, seen):
                    found.setdefault(rank, {})[each] = below
        self._told = seen
        return found

    def _owned(
        self, tree: Sequence[int], ranks: Sequence[int], seen: dict[tuple[int, int], int | None]
    ) -> Iterable[tuple[int, int, ProcessUse]]:
        """Yield (rank, pid, use) of each process of a process tree, parents before children. `ranks` are the ranks that
        the tree may belong to; processes are assigned to the first of them unless their environment names another."""
        owners: dict[int, int] = {}
        for pid in tree:
            use = self._table.read(pid)
            if use is None:
                continue
            owner = owners.get(use.parent, ranks[0])
            if len(ranks) > 1 and owner == ranks[0]:
                owner = self._told_rank(pid, use, ranks, seen)
            owners[pid] = owner
            yield owner, pid, use

    def _told_rank(
        self, pid: int, use: ProcessUse, ranks: Sequence[int], seen: dict[tuple[int, int], int | None]
    ) -> int:
        """Return the rank that the variable WORLDSIZE_RANK of a process names. It is read once, by the second look that
        sees the process, because the process may be a launcher's shell before. It is not read while the process waits
        for a disk, because reading its memory may block, too. Until it is read, and where it names no rank of the node,
        return the node's first rank."""
        key = pid, use.started
        told = self._told.get(key)
        if told is None and key in self._told and use.state != "D":
            number = parse_digits(self._table.variable(pid, _RANK))
            told = number if number in ranks else ranks[0]
        seen[key] = told
        return ranks[0] if told is None else told
