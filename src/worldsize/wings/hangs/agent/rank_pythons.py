"""The processes of a rank whose Python stacks are worth reading: its own Python, below shells and launchers, and the
children of that Python.

Standard library only: travels inside agent.pyz (Python >= 3.8).
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping

from worldsize.agent.posix import processes
from worldsize.common.atomic_files import read_if_possible
from worldsize.common.named_tuple import NamedTuple
from worldsize.common.numbers import parse_digits

MOST_CHILDREN = 8
"""The maximum number of child processes of one rank. A data loader's workers mostly do the same."""

_RANK_VARIABLES = ("WORLDSIZE_RANK", "RANK", "OMPI_COMM_WORLD_RANK", "PMI_RANK", "PMIX_RANK", "SLURM_PROCID")
_LAUNCHERS = frozenset(
    ("torchrun", "deepspeed", "accelerate", "horovodrun", "colossalai", "composer", "mpirun", "mpiexec", "srun")
)
_LAUNCHER_MODULES = ("torch.distributed.run", "torch.distributed.launch", "deepspeed.launcher.", "accelerate.commands.")
_TRACKERS = ("multiprocessing.resource_tracker", "multiprocessing.forkserver", "multiprocessing.semaphore_tracker")
"""Modules of Python's own helper processes, which always wait for work."""

_PYTHONS = ("python", "pypy")
_STATE, _PARENT = 0, 1
_MOST_MAPS = 4 << 20


class RankProcesses(NamedTuple):
    """A rank's own Python, or, if there is none, the process that it was started as, and the processes below it.
    `children` holds their pids and parents, Pythons first. `launched` is true if a launcher within the rank has started
    several Pythons."""

    rank: int
    pid: int
    is_python: bool
    children: tuple[tuple[int, int], ...]
    launched: bool


def rank_processes(roots: Mapping[int, int]) -> list[RankProcesses]:
    """Return the existing processes of each rank: its own Python and the children of that. `roots` maps each rank to
    the process that was started for it. Ranks that share one process, since a launcher has started them, are
    distinguished by the rank in their processes' environment."""
    shared: dict[int, list[int]] = {}
    for rank, pid in sorted(roots.items()):
        shared.setdefault(pid, []).append(rank)
    found = []
    for root, ranks in shared.items():
        tree = processes.trees([root])
        for rank, pids in (_split(tree, ranks) if len(ranks) > 1 else {ranks[0]: tree}).items():
            if pids:
                found.append(_rank_processes(rank, pids))
    return sorted(found)


def _split(tree: Iterable[int], ranks: list[int]) -> dict[int, list[int]]:
    """Return a mapping of each rank in `ranks` to those processes of `tree` whose environment names that rank. A
    process without a rank, or a launcher, which has the environment of the first rank, belongs to none."""
    found: dict[int, list[int]] = {rank: [] for rank in ranks}
    for pid in tree:
        rank = None if is_launcher(pid) else rank_of(pid)
        if rank in found:
            found[rank].append(pid)
    return found


def rank_of(pid: int) -> int | None:
    """Return the rank that the environment variables of the process `pid` name. None if they name none, or cannot be
    read."""
    if state_of(pid) == "D":  # reading its memory may wait, too
        return None
    values = (parse_digits(processes.variable(pid, name)) for name in _RANK_VARIABLES)
    return next((value for value in values if value is not None), None)


def _rank_processes(rank: int, tree: list[int]) -> RankProcesses:
    pythons = [pid for pid in tree if is_python(pid) and not _is_tracker(pid)]
    launched = bool(pythons) and is_launcher(pythons[0])
    own = [pid for pid in pythons if not is_launcher(pid)] or pythons or tree[:1]
    below = set(processes.trees([own[0]])[1:]) if not launched else set(tree[tree.index(own[0]) + 1 :])
    ordered = [pid for pid in own[1:] if pid in below] + [pid for pid in tree if pid in below and pid not in pythons]
    children = tuple((pid, parent_of(pid)) for pid in ordered if not _is_tracker(pid))
    return RankProcesses(rank, own[0], own[0] in pythons, children[:MOST_CHILDREN], launched)


def is_python(pid: int) -> bool:
    """Return whether the process `pid` executes Python, or has libpython in its memory. If this process may not read
    that, return whether the process was started as Python."""
    try:
        name = os.path.basename(os.readlink(f"/proc/{pid}/exe"))
    except PermissionError:
        words = processes.command_line(pid)[:1]  # which any user may read
        return any(os.path.basename(word).startswith(_PYTHONS) for word in words)
    except OSError:
        return False
    if name.startswith(_PYTHONS):
        return True
    return state_of(pid) != "D" and b"/libpython" in read_if_possible(f"/proc/{pid}/maps", _MOST_MAPS)


def is_launcher(pid: int) -> bool:
    """Return whether the process `pid` is a launcher, such as torchrun or mpirun, which starts ranks or programs of its
    own."""
    words = processes.command_line(pid)[:5] if state_of(pid) != "D" else ()
    return any(os.path.basename(word) in _LAUNCHERS or word.startswith(_LAUNCHER_MODULES) for word in words)


def _is_tracker(pid: int) -> bool:
    words = processes.command_line(pid)[:8] if state_of(pid) != "D" else ()
    return any(name in word for word in words for name in _TRACKERS)


def state_of(pid: int) -> str:
    """Return the letter of the state of the process `pid`, proc(5), such as "R" or "D". "" if there is no such
    process."""
    fields = processes.stat_fields(pid)
    return fields[_STATE].decode("ascii", "replace") if fields else ""


def parent_of(pid: int) -> int:
    """Return the parent's ID of the process `pid`. 0 if there is no such process."""
    fields = processes.stat_fields(pid)
    return int(fields[_PARENT]) if fields else 0


def command_of(pid: int) -> str:
    """Return the name of the program that the process `pid` executes, according to the kernel."""
    return read_if_possible(f"/proc/{pid}/comm").decode("utf-8", "replace").rstrip("\n")
