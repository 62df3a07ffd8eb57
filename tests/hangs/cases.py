"""What each program of `programs/` does: which rank hangs, where, and in which call the others wait for it."""

from __future__ import annotations

import functools
from pathlib import Path
from typing import NamedTuple

PROGRAMS = Path(__file__).parent / "programs"

NEVER, ANOTHER, STAYS, START = "never entered", "entered another call", "did not leave", "start"
KINDS = (NEVER, ANOTHER, STAYS, START)


@functools.cache
def marked_lines(program: str) -> dict[str, int]:
    """The lines of a program that have a marker, which is what a line's comment says."""
    found: dict[str, int] = {}
    for number, line in enumerate((PROGRAMS / program).read_text().splitlines(), 1):
        code, _, marker = line.partition("  # ")
        if code and marker and not marker.startswith("type:"):
            assert marker not in found, "%s has two lines that are marked %r" % (program, marker)
            found[marker] = number
    return found


class HangCase(NamedTuple):
    """One way to hang.

    world  nodes × ranks on each
    ranks  those that hang by themselves, for which the others wait; empty where nobody can say: a verdict then has to
           be "unknown"
    kind   what such a rank did with the call in which the others wait: it
           - never entered it: it is somewhere else, or has ended;
           - entered another call;
           - did not leave it, or the one before it, while the others came through;
           - "start": it did not come to the meeting of all ranks
    call   the call in which the others wait, "" where no rank waits for another. It is what the network does: of DDP
           all_reduce in a backward, broadcast in a forward
    ended  whether the rank has ended with 0, so that it is in no place
    needs  what a machine has to have: "mpi" (mpirun and mpi4py), "fuse" (root and /dev/fuse)

    Markers in the program, as comments at the ends of lines:

    here     where the rank that hangs is, in that process of it that hangs
    parent   where the rank's first process is meanwhile, when another one hangs
    child    where its child is, for which the rank's first process waits
    thread   where the other thread of a dead-lock is
    caller   the call in which the rank is, when it is the call that has come to `here`
    others   where the other ranks wait
    partner  where the one other rank is, which waits for the rank directly
    server   where the rank is that serves the others
    """

    id: str
    program: str
    world: str
    ranks: frozenset[int]
    kind: str
    call: str
    why: str
    arguments: tuple[str, ...] = ()
    ended: bool = False
    needs: str = ""

    def at(self, marker: str) -> str | None:
        """file:line of a marker; the file is relative to `programs/`."""
        line = marked_lines(self.program).get(marker)
        return None if line is None else "%s:%d" % (self.program, line)

    @property
    def place(self) -> str | None:
        """Where the rank is that hangs."""
        return self.at("here")

    @property
    def others(self) -> str | None:
        """Where the others wait."""
        return self.at("others")

    @property
    def nodes(self) -> int:
        return int(self.world.partition("x")[0])

    @property
    def ranks_in_all(self) -> int:
        return self.nodes * int(self.world.partition("x")[2])


def case(
    program: str,
    world: str,
    ranks: set[int] | None,
    kind: str,
    call: str,
    why: str,
    *arguments: str,
    ended: bool = False,
    needs: str = "",
    id: str = "",
) -> HangCase:
    """The id is the program's name, where no other is given; None for ranks: nobody can say."""
    name = id or program.removesuffix(".py").replace("/", "-").replace("_", "-")
    return HangCase(name, program, world, frozenset(ranks or ()), kind, call, why, arguments, ended, needs)


def all_cases() -> tuple[HangCase, ...]:
    from hangs.table import collectives, data, processes, starts

    return (*data.CASES, *processes.CASES, *collectives.CASES, *starts.CASES)
