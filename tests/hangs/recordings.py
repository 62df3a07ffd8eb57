"""What a look from outside sees of a case of the corpus, again and again: recorded once, judged as often as wanted."""

from __future__ import annotations

import base64
import json
import os
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import NamedTuple

from hangs.cases import HangCase
from hangs.forked_ranks import ForkedRun, Mother
from hangs.harness import STARTS_WITHIN, Running, running
from hangs.healthy import HealthyCase
from worldsize.agent.supervision.standstill import process_activity
from worldsize.wings.hangs.agent.recorder_dumps import ask_recorders
from worldsize.wings.hangs.agent.stack_collector import collect_stacks
from worldsize.wings.hangs.judgement.stacks.rank_stacks import RankStacks, parse_stacks_line, stacks_line

HERTZ = os.sysconf("SC_CLK_TCK")

GAP = 0.33
"""Between the two samples of a look, times the limit."""

LOOKS = (0, 1, 3, 5, 6.2)
"""When a run is looked at that computes for ever, waits by looking again and again, or is at a checkpoint: times the
limit."""

LONG = ("native/", "mpi/", "waits/checkpoint.py", "waits/shard.py")
"""How the programs begin that are looked at so often; of the others one look is enough."""

SETTLES, SLOWEST = 2.0, 5.0
"""Seconds after which all ranks of a case wait."""

PERIOD = 0.7
"""Seconds between two samples of a healthy case."""

LONGEST = 200.0


class Sample(NamedTuple):
    """A moment. at: Unix seconds; ended: by rank, its exit code; signs: by rank, bytes that it has moved so far, and
    those of its log."""

    at: float
    stacks: tuple[RankStacks, ...]
    ended: dict[int, int]
    signs: dict[int, tuple[int, int]]


class Recording(NamedTuple):
    """samples: the oldest first; dumps: by rank, that of its Flight Recorder at the end."""

    case: str
    began: float
    samples: tuple[Sample, ...]
    dumps: dict[int, bytes]


def take_sample(
    roots: Mapping[int, int], directory: str, ended: Mapping[int, int], log: Callable[[int], str]
) -> Sample:
    living = {rank: pid for rank, pid in roots.items() if rank not in ended}
    signs = {rank: (process_activity(pid).moved, _size(log(rank))) for rank, pid in roots.items()}
    return Sample(time.time(), tuple(collect_stacks(living, directory)), dict(ended), signs)


def take_dumps(sample: Sample, directory: str) -> dict[int, bytes]:
    pids = {each.rank: each.pid for each in sample.stacks if each.parent is None}
    answers = ask_recorders(pids, directory)
    return {rank: Path(each.path).read_bytes() for rank, each in answers.items() if each.path}


def _size(path: str) -> int:
    try:
        return os.stat(path).st_size
    except OSError:
        return -1


def write_recording(recording: Recording, path: Path) -> None:
    with path.open("w") as file:
        dumps = {rank: base64.b64encode(data).decode() for rank, data in recording.dumps.items()}
        file.write(json.dumps([recording.case, recording.began, dumps]) + "\n")
        for each in recording.samples:
            file.write(json.dumps([each.at, list(map(stacks_line, each.stacks)), each.ended, each.signs]) + "\n")


def read_recording(path: Path) -> Recording:
    head, *lines = path.read_text().splitlines()
    case, began, dumps = json.loads(head)
    return Recording(
        case,
        began,
        tuple(_samples(lines)),
        {int(rank): base64.b64decode(data) for rank, data in dumps.items()},
    )


def _samples(lines: list[str]) -> Iterator[Sample]:
    for line in lines:
        at, stacks, ended, signs = json.loads(line)
        read = [parse_stacks_line(each) for each in stacks]
        yield Sample(
            at,
            tuple(each for each in read if each is not None),
            {int(rank): code for rank, code in ended.items()},
            {int(rank): (moved, size) for rank, (moved, size) in signs.items()},
        )


class RealRun:
    """A case that `worldsize run` has started, as `ForkedRun` is."""

    def __init__(self, running: Running, size: int) -> None:
        self._running = running
        self._size = size
        self.codes: dict[int, int] = {}

    @property
    def roots(self) -> dict[int, int]:
        found = {rank: self.mark("rank", rank) for rank in range(self._size)}
        return {rank: pid for rank, pid in found.items() if pid}

    @property
    def stacks(self) -> str:
        return self._running.cli.path(self._running.find_run(), "attempt-0", "stacks")

    def log(self, rank: int) -> str:
        return self._running.cli.path(self._running.find_run(), "attempt-0", "logs", "rank-%05d.log" % rank)

    def mark(self, name: str, rank: int) -> int:
        return self._running.pid(name, rank)

    def poll(self) -> dict[int, int]:
        """A rank that has ended while the run goes on has ended with 0."""
        gone = [rank for rank, pid in self.roots.items() if not os.path.exists("/proc/%d" % pid)]
        self.codes.update(dict.fromkeys(gone, 0))
        return self.codes

    def said(self) -> str:
        return self._running.said()


@contextmanager
def _started(mother: Mother, case: HangCase | HealthyCase, limit: float, real: bool) -> Iterator[RealRun | ForkedRun]:
    nodes, _, each = case.world.partition("x")
    arguments = case.arguments if isinstance(case, HangCase) else (*case.arguments, "--limit", str(limit))
    if real:
        with running(case.world, case.needs, case.program, arguments) as started:
            yield RealRun(started, int(nodes) * int(each))
        return
    forked = ForkedRun(mother, case.world, case.program, arguments)
    try:
        yield forked
    finally:
        forked.end()


def record(mother: Mother, case: HangCase | HealthyCase, limit: float, real: bool) -> tuple[Recording | None, str]:
    """Start a case and look at it: until it is over, or as often as a hang needs. None, and why, where it did not come
    to its place."""
    with _started(mother, case, limit, real) as run:
        if isinstance(case, HealthyCase):
            return _record_healthy(run, case, real)
        began = time.time()
        while not all(run.mark("hangs", rank) for rank in case.ranks or range(case.ranks_in_all)):
            if time.time() - began > STARTS_WITHIN:
                return None, "it does not come to the place where it hangs: %s" % run.said()
            time.sleep(0.1)
        while case.ended and not case.ranks <= run.poll().keys() and time.time() - began < STARTS_WITHIN:
            time.sleep(0.1)  # to end takes a rank some time, too
        time.sleep(SLOWEST if case.program == "inside/stopped.py" else SETTLES)
        began, samples = time.time(), []
        for look in LOOKS if case.program.startswith(LONG) else LOOKS[:1]:
            for moment in (look, look + GAP):
                time.sleep(max(0.0, began + moment * limit - time.time()))
                samples.append(take_sample(run.roots, run.stacks, run.poll(), run.log))
        return Recording(case.id, began, tuple(samples), take_dumps(samples[-1], run.stacks)), ""


def _record_healthy(run: RealRun | ForkedRun, case: HealthyCase, real: bool) -> tuple[Recording | None, str]:
    began, samples = time.time(), []
    while time.time() - began < LONGEST:
        moment = time.time()
        samples.append(take_sample(run.roots, run.stacks, run.poll(), run.log))
        if run.roots and len(run.poll()) == len(run.roots):
            break
        time.sleep(max(0.1, moment + PERIOD - time.time()))
    if not real and set(run.codes.values()) != {0}:
        return None, "it ended with %s: %s" % (run.codes, run.said())
    return Recording(case.id, began, tuple(samples), {}), ""
