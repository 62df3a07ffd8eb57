"""Programs that are slow and well: no detector may take any of them for a hang.

Each is told the limit of the detector under test. It is slow for a multiple of that: for less than the limit where it
gives no sign of life, for more where it computes, moves bytes or prints, or where its stacks show a checkpoint or a
compilation. Then it ends with 0.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

SILENT = (0.3, 0.6)
"""Times the limit, of a phase without a sign of life."""

BUSY = (1.5, 2.5)
"""Times the limit, of a phase with one."""

LONG = (2.5,)
"""Times the limit, of a silent phase that may take long."""

ONCE = (1.0,)
"""Of a phase that takes as long as it takes."""

FIRST, MIDDLE, FAR = ("1x3", 0), ("1x4", 1), ("2x2", 3)
"""A world and the rank that is slow in it."""

ANYWHERE = (FIRST, MIDDLE, FAR)


class HealthyKind(NamedTuple):
    """`sign`: by what a look from outside could tell that it is well; "none" where it is silent."""

    id: str
    program: str
    phase: str
    times: tuple[float, ...]
    sign: str
    why: str
    where: tuple[tuple[str, int], ...] = ANYWHERE
    arguments: tuple[str, ...] = ()
    needs: str = ""
    seeds: int = 1


class HealthyCase(NamedTuple):
    """One run of a kind; `--limit SECONDS` is added to its arguments."""

    id: str
    kind: str
    program: str
    world: str
    arguments: tuple[str, ...]
    needs: str
    sign: str
    why: str


def _kind(
    id: str, phase: str, times: tuple[float, ...], sign: str, why: str, program: str = "alone", **more: object
) -> HealthyKind:
    return HealthyKind(id, "healthy/%s.py" % program, phase, times, sign, why, **more)  # type: ignore[arg-type]


KINDS = (
    _kind("python", "python", BUSY, "processor", "One rank evaluates in Python.", seeds=2),
    _kind("numpy", "numpy", BUSY, "processor", "One rank evaluates by numpy."),
    _kind("torch", "torch", BUSY, "processor", "One rank evaluates by torch, in native code."),
    _kind("one-call", "one-call", BUSY, "processor", "One rank is in a single call of native code."),
    _kind("interpreter-held", "interpreter-held", BUSY, "processor", "One call holds the interpreter's lock."),
    _kind("garbage", "garbage", BUSY, "processor", "One rank collects its garbage again and again."),
    _kind("process", "process", BUSY, "processor of a child", "Another program evaluates, and the rank waits."),
    _kind("pool", "pool", BUSY, "processor of a child", "Processes of a pool tokenise for one rank.", seeds=2),
    _kind("thread", "thread", BUSY, "processor", "A thread evaluates, and the main thread joins it."),
    _kind("compiler", "compiler", BUSY, "processor of a child", "A C compiler makes kernels, one after the other."),
    _kind("bytecode", "bytecode", BUSY, "processor of a child", "Modules are compiled, one after the other."),
    _kind("inductor", "inductor", ONCE, "processor of a child", "torch.compile has its first call.", where=(MIDDLE,)),
    _kind("checkpoint", "checkpoint", BUSY, "disk", "A checkpoint is written, each megabyte to the disk.", seeds=2),
    _kind("trickle", "trickle", BUSY, "disk", "A checkpoint is written at a few kilobytes a second.", seeds=2),
    _kind("reading", "reading", BUSY, "disk", "A file is read in pieces, from memory."),
    _kind("copying", "copying", BUSY, "disk of a child", "Another program writes files for the rank."),
    _kind("download", "download", BUSY, "network", "Bytes come at a few kilobytes a second.", seeds=2),
    _kind("sleeping", "sleeping", SILENT, "none", "One rank sleeps for less than the limit.", seeds=2),
    _kind("tuner", "tuner", SILENT, "none", "Another program thinks about the next parameters."),
    _kind("file", "file", SILENT, "none", "One rank looks now and then for a file that will come."),
    _kind("event", "event", SILENT, "none", "A thread reports when an upload is done."),
    _kind("slow-save", "slow-save", LONG, "stacks", "A checkpoint goes where nothing is taken for long."),
    _kind("slow-build", "slow-build", LONG, "stacks", "A build tool waits for another machine, and the rank for it."),
    _kind("printing", "printing", BUSY, "lines", "One rank reports at each attempt that there is no connection yet."),
    _kind("backward-sleeping", "sleeping", SILENT, "none", "The others wait in a backward.", "between"),
    _kind("backward-python", "python", BUSY, "processor", "The others wait in a backward.", "between"),
    _kind("backward-trickle", "trickle", BUSY, "disk", "The others wait in a backward.", "between"),
    _kind("all-sleeping", "sleeping", SILENT, "none", "All ranks wait for their first batch.", "together"),
    _kind("all-python", "python", BUSY, "processor", "All ranks warm up.", "together"),
    _kind("all-download", "download", BUSY, "network", "All ranks download.", "together", where=(MIDDLE, FAR)),
    _kind("before-sleeping", "sleeping", SILENT, "none", "One rank comes late to the meeting.", "before"),
    _kind("before-python", "python", BUSY, "processor", "One rank prepares before the meeting.", "before"),
    _kind("before-download", "download", BUSY, "network", "One rank downloads before the meeting.", "before"),
    _kind("after-sleeping", "sleeping", SILENT, "none", "One rank is last, and sleeps.", "after"),
    _kind("after-python", "python", BUSY, "processor", "One rank is last, and evaluates.", "after"),
    _kind("after-trickle", "trickle", BUSY, "disk", "One rank is last, and uploads.", "after"),
    _kind("loader", "sleeping", SILENT, "lines", "Each batch takes a while, which is less than the limit.", "loader"),
    _kind("loader-reading", "reading", SILENT, "lines", "Each batch is read slowly.", "loader"),
    _kind(
        "loader-worker",
        "sleeping",
        SILENT,
        "lines",
        "Each batch takes a worker a while.",
        "loader",
        arguments=("--workers", "1"),
    ),
    _kind("uneven", "", BUSY, "lines", "One rank takes three times as long for each step.", "uneven"),
    _kind("one-log", "", BUSY, "processor", "One rank alone writes lines.", "one_log"),
    _kind("no-log", "", BUSY, "processor", "No rank writes a line.", "no_log"),
    _kind("accumulation", "", BUSY, "processor", "Gradients are added up without a call.", "accumulation"),
    _kind("big-reduce", "", BUSY, "network", "Large tensors are reduced again and again.", "big_reduce"),
    _kind("suspended", "all", BUSY, "none, and stopped", "All ranks are stopped and go on.", "suspended", seeds=2),
    _kind("suspended-one", "one", SILENT, "none, and stopped", "One rank is stopped and continues.", "suspended"),
    _kind("ends-sleeping", "sleeping", SILENT, "none", "Ranks end at different times, without work.", "different_ends"),
    _kind("ends-python", "python", BUSY, "processor", "Ranks end at different times, by their work.", "different_ends"),
    _kind("polling-python", "python", BUSY, "processor", "The others look whether their call is over.", "polling"),
    _kind("polling-sleeping", "sleeping", SILENT, "none", "The others look whether their call is over.", "polling"),
    _kind("groups", "python", BUSY, "processor", "Two groups have a pace of their own.", "two_groups"),
    _kind("mpi-python", "python", BUSY, "processor", "The others spin at MPI's barrier.", "mpi", needs="mpi"),
    _kind("mpi-sleeping", "sleeping", SILENT, "none", "The others spin at MPI's barrier.", "mpi", needs="mpi"),
)


def _cases_of(kind: HealthyKind) -> Iterator[HealthyCase]:
    for world, rank in kind.where:
        for times in kind.times:
            for seed in range(kind.seeds):
                own = ("--rank", str(rank), "--times", "%g" % times, "--seed", str(seed + rank))
                phase = ("--phase", kind.phase) if kind.phase else ()
                name = "healthy-%s-%s-%d-%g-%d" % (kind.id, world, rank, times, seed)
                arguments = (*own, *phase, *kind.arguments)
                yield HealthyCase(name, kind.id, kind.program, world, arguments, kind.needs, kind.sign, kind.why)


def all_healthy() -> tuple[HealthyCase, ...]:
    return tuple(case for kind in KINDS for case in _cases_of(kind))


def one_of_each_kind() -> tuple[HealthyCase, ...]:
    """Each in another world, and for the longest time."""
    found = []
    for number, kind in enumerate(KINDS):
        cases = list(_cases_of(kind))
        world, _ = kind.where[number % len(kind.where)]
        found.append([case for case in cases if case.world == world][-1])
    return tuple(found)
