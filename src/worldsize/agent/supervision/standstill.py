"""Detection of ranks that wait forever because other ranks have ended with 0.

The agents check for it with each heartbeat, once a rank has ended with 0, and never before. A rank counts as idle while
its log does not grow and all its processes together stay under `QUIET_SHARE` of one core and `QUIET_BYTES` read and
written. A rank that spins while it waits is therefore never idle, nor is a rank that still evaluates or writes.
"""

from __future__ import annotations

import os
import time
from collections.abc import Collection, Iterable, Mapping, Sequence

from worldsize.agent.control.solo_peers import Peers, Standstill
from worldsize.agent.launchers.rank_process import Process
from worldsize.agent.outcome.verdict import TIMEOUT_CODE
from worldsize.agent.posix import processes
from worldsize.common.atomic_files import read_if_possible
from worldsize.common.named_tuple import NamedTuple
from worldsize.common.numbers import span_words
from worldsize.plan.plan import Plan
from worldsize.plan.run_paths import RunPaths
from worldsize.state.records import Failure, Reason

QUIET_SHARE = 0.05
QUIET_BYTES = 4096
"""Bytes in a second that an idle rank may move, because waiting threads and heartbeats wake up now and then."""

_LATE = 3
"""The number of periods after which a sample counts as late."""

_STATE, _CPU = 0, slice(11, 15)
"""Indices among the fields of `processes.stat_fields`: the state; utime, stime, and those of ended children."""

_IO_COUNTERS = (b"rchar:", b"wchar:", b"read_bytes:", b"write_bytes:")


class ProcessActivity(NamedTuple):
    """The work of a process tree so far: clock ticks, and bytes moved. `held` states whether a process of it is stopped
    or traced."""

    ticks: int
    moved: int
    held: bool


class Sample(NamedTuple):
    """The state of a node at a time (monotonic): the sizes of its ranks' logs, and the work of each tree of the agent's
    children."""

    at: float
    logged: tuple[int, ...]
    work: Mapping[int, ProcessActivity]


def is_busy(before: Sample, after: Sample, hertz: int) -> bool:
    """Return whether the ranks of a node did any work between two samples: a log grew, or a process tree used CPU time
    or moved bytes above the limits of idleness. `hertz` is the number of clock ticks in a second."""
    if before.logged != after.logged or before.work.keys() != after.work.keys():
        return True
    seconds = after.at - before.at
    ticks, moved = 1 + QUIET_SHARE * seconds * hertz, QUIET_BYTES * seconds
    for pid, work in after.work.items():
        known = before.work[pid]
        if work.held or not 0 <= work.ticks - known.ticks <= ticks or not 0 <= work.moved - known.moved <= moved:
            return True
    return False


class Idleness:
    """The time for which one node has been idle, by samples that are taken `every` that number of seconds.

    A sample that comes late restarts the count, because the agent itself did not run meanwhile, and the ranks may not
    have run either.
    """

    def __init__(self, every: float, hertz: int) -> None:
        self._patience = _LATE * every
        self._hertz = hertz
        self._last: Sample | None = None
        self._seconds = 0.0

    def seconds(self, sample: Sample, living: Collection[int]) -> float:
        """Add a sample of the node. Return for how many seconds the node's ranks have been idle up to this sample; 0 if
        the sample does not contain all processes of ranks, `living`."""
        last, self._last = self._last, sample
        known = sample.work.keys() >= set(living)
        if last is None or not known or sample.at - last.at > self._patience or is_busy(last, sample, self._hertz):
            self._seconds = 0.0
        else:
            self._seconds += sample.at - last.at
        return self._seconds


class StandstillDetector:
    """The check of one node's ranks for a standstill, which runs `every` that number of seconds."""

    def __init__(self, plan: Plan, paths: RunPaths, peers: Peers, every: float) -> None:
        self._plan = plan
        self._paths = paths
        self._peers = peers
        self._idleness = Idleness(every, os.sysconf("SC_CLK_TCK"))

    def check(self, living: Mapping[int, Process], now: float) -> Failure | None:
        """Take a sample of this node's ranks, and report their idle time to the head. On the head, return the failure
        of the run if all ranks that are left of it hang; else None. Nothing is read before a rank has ended with 0."""
        if not self._peers.check_standstill:
            return None
        sample = sample_node(self._paths, living, processes.children(), now)
        seconds = self._idleness.seconds(sample, living)
        waiting = [rank for process in living.values() for rank in process.ranks]
        return hang_failure(self._plan, self._peers.share_standstill((waiting, seconds)))


def hang_failure(plan: Plan, nodes: Iterable[Standstill]) -> Failure | None:
    """Return the Failure (HANG) of a run whose remaining `nodes`, each given by its ranks that have not ended and their
    idle seconds, have all been idle for the plan's `hang_timeout`; None if they have not, or if the timeout is 0."""
    stuck = [(waiting, seconds) for waiting, seconds in nodes if waiting]
    seconds = min((seconds for _, seconds in stuck), default=0.0)
    if not stuck or not plan.hang_timeout or seconds < plan.hang_timeout:
        return None
    waiting = {rank for ranks, _ in stuck for rank in ranks}
    ended = sorted(set(range(plan.world_size)) - waiting)
    what = "%s ended with code 0, and %s still waited: no output, CPU time or I/O for %.0f s (hang_timeout: %g)"
    message = what % (_ranks_text(ended), _ranks_text(sorted(waiting)), seconds, plan.hang_timeout)
    return Failure(Reason.HANG, message, code=TIMEOUT_CODE, time=time.time())


def _ranks_text(ranks: Sequence[int]) -> str:
    """Return the numbers of ranks as text: "rank 3", "ranks 0-2,5". `ranks` must be in ascending order."""
    return "rank{} {}".format("" if len(ranks) == 1 else "s", ",".join(span_words(ranks)))


def sample_node(paths: RunPaths, living: Mapping[int, Process], roots: Iterable[int], now: float) -> Sample:
    """Return a sample of a node at `now`: the sizes of the logs of the `living` processes of ranks, and the work so far
    of each process tree with a root in `roots`."""
    logs = {log for each in living.values() for log in (each.log, *map(paths.rank_log, each.ranks))}
    return Sample(now, tuple(map(_size, sorted(logs))), {pid: process_activity(pid) for pid in roots})


def _size(path: str) -> int:
    """Return the size of the file in bytes; -1 if there is no file."""
    try:
        return os.stat(path).st_size
    except OSError:
        return -1


def process_activity(root: int) -> ProcessActivity:
    """Return the clock ticks and the bytes moved so far by the process `root` and all its descendants, and whether one
    of them is stopped or traced."""
    ticks, moved, held = 0, 0, False
    for pid in processes.trees([root]):
        fields = processes.stat_fields(pid)
        if fields is not None:
            ticks += sum(map(int, fields[_CPU]))
            held = held or fields[_STATE] in b"Tt"
            moved += _bytes_moved(pid)
    return ProcessActivity(ticks, moved, held)


def _bytes_moved(pid: int) -> int:
    """Return the number of bytes that the process `pid` has read and written, from /proc/PID/io; 0 if this process may
    not read that file."""
    fields = read_if_possible(f"/proc/{pid}/io").split()
    return sum(int(value) for name, value in zip(fields[::2], fields[1::2]) if name in _IO_COUNTERS)
