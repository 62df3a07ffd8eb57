"""When a run is looked at, since nothing of it gives a sign of life: a pure rule of what nodes tell, and a clock.

A sign of life is a line that a rank has written, bytes that its processes have moved, and a GPU that works, as its
power and the traffic of its memory tell (`gpu_signs.py`). CPU time is none, nor is a GPU's use: NCCL and MPI spin while
they wait, on both. So a silent run is only suspected; stacks, taken twice, tell whether it works. One that works is
looked at again later.

Standard library only: travels inside agent.pyz (Python >= 3.8).
"""

from __future__ import annotations

from collections.abc import Collection, Mapping

from worldsize.common.named_tuple import Any, NamedTuple

FIRST_FACTOR = 6
"""Before its first output a run may be silent for so many times the limit: imports, downloads, compilation."""

LONG_WORK_FACTOR = 6
"""What looks like a checkpoint or a compilation may be silent for so many times the limit: 0.1 h for 60 s."""

LONGEST_FACTOR = 6
"""A run that works in silence is looked at after 1, 2, 4 and so many times the limit, and then once in each."""

GAP_SHARE, SHORTEST_GAP, LONGEST_GAP = 0.1, 0.2, 5.0
"""Between the two samples of stacks: a share of the limit, in seconds at least and at most."""

_SAMPLES = 2
"""So many make one judgement."""

LONGEST_DOUBT = 10.0
"""Seconds, at most, after which signs of life of a run that was called stuck mean that it goes on."""

_LONGEST = 1e9

ANSWER_TIME = 30.0
"""Seconds after which a node that has not sampled its ranks is not waited for."""


QUIET_BYTES_AT_START = 16384
"""Bytes in a second that a rank may move which waits for the meeting of all: the one that serves it asks itself a
hundred times a second who has come, which is some 4,400 bytes."""


class NodeSigns(NamedTuple):
    """What a node tells of its ranks. `silent`: seconds since the last sign of life of any of them; `spoke`: whether
    any rank has written a line yet; `ranks`: those that live, ascending; `idle`: for how many seconds all of their GPUs
    have been seen to do nothing, though they worked before; 0 where nobody can tell."""

    silent: float
    spoke: bool
    ranks: tuple[int, ...]
    idle: float = 0.0


class Step(NamedTuple):
    """What is to be done. `action`: "sample", have each node take stacks, for the `number`-th time in all, before a
    judgement where it `is_last`; "judge", judge the samples of `numbers`; "resumed", tell that a run which was called
    stuck goes on."""

    action: str
    number: int = 0
    numbers: tuple[int, ...] = ()
    is_last: bool = False


class Watch:
    """The head's watch over all nodes. Times are seconds of one monotonic clock."""

    def __init__(self, limit: float, now: float) -> None:
        """`limit`: seconds of silence after which a run that has begun to speak is suspected."""
        self._limit = limit
        self._gap = min(LONGEST_GAP, max(SHORTEST_GAP, GAP_SHARE * limit))
        self._factor = 1.0
        self._number = 0
        self._taken: tuple[int, ...] = ()
        self._answered: set[int] = set()
        self._asked_at: float | None = None
        self._next_sample_at: float | None = None
        self._judging = False
        self._stuck = False
        self._alive_at: float | None = None
        self._looked_at = now

    @property
    def number(self) -> int:
        """How many samples have been asked for."""
        return self._number

    def step(self, signs: Mapping[int, NodeSigns], nodes: Collection[int], now: float) -> Step | None:
        """What is to be done now, by the latest word of each of `nodes`; None for nothing."""
        if self._judging:
            return None
        silent = self._silence(signs, nodes)
        if self._stuck:
            return self._after_judgement(silent, now)
        if self._asked_at is not None:
            return self._after_sample(silent, nodes, now)
        if self._next_sample_at is not None:
            return self._sample(now) if now >= self._next_sample_at else None
        spoke = any(each.spoke for each in signs.values())
        wanted = self._limit * max(self._factor, 1.0 if spoke else FIRST_FACTOR)
        if silent < self._limit:
            self._factor = 1.0
        return self._sample(now) if silent >= wanted and now - self._looked_at >= self._limit else None

    def note_answer(self, node: int, number: int) -> None:
        """Note that a node has sampled its ranks for the `number`-th time."""
        if number == self._number:
            self._answered.add(node)

    def note_judgement(self, stuck: bool, now: float) -> None:
        """Note how the samples were judged. Of a run that works the next look comes later."""
        self._judging, self._taken, self._stuck = False, (), stuck
        self._looked_at = now
        if not stuck:
            self._factor = min(LONGEST_FACTOR, 2 * self._factor)

    def _silence(self, signs: Mapping[int, NodeSigns], nodes: Collection[int]) -> float:
        """Return the seconds for which the whole run has been silent; 0 where a node has not told, or no rank lives."""
        told = [signs.get(node) for node in nodes]
        living = [each for each in told if each is not None and each.ranks]
        if None in told or not living:
            return 0.0
        return min(each.silent for each in living)

    def _sample(self, now: float) -> Step:
        self._number += 1
        self._asked_at, self._next_sample_at = now, None
        self._answered.clear()
        return Step("sample", self._number, is_last=len(self._taken) == _SAMPLES - 1)

    def _after_sample(self, silent: float, nodes: Collection[int], now: float) -> Step | None:
        assert self._asked_at is not None
        if silent < self._limit / 2:  # it goes on, before anybody has judged
            self._asked_at, self._next_sample_at, self._taken, self._looked_at = None, None, (), now
            return None
        if not self._answered.issuperset(nodes) and now - self._asked_at < ANSWER_TIME:
            return None
        self._taken = (*self._taken, self._number)
        self._asked_at = None
        if len(self._taken) < _SAMPLES:
            self._next_sample_at = now + self._gap
            return None
        self._judging = True
        return Step("judge", numbers=self._taken)

    def _after_judgement(self, silent: float, now: float) -> Step | None:
        """Of a run that was called stuck: what it writes as it ends, such as the traceback of a time-out, does not mean
        that it goes on."""
        if silent >= self._limit / 2:
            self._alive_at = None
            return None
        self._alive_at = self._alive_at if self._alive_at is not None else now
        if now - self._alive_at < min(LONGEST_DOUBT, self._limit / 4):
            return None
        self._stuck, self._factor, self._looked_at, self._alive_at = False, 1.0, now, None
        return Step("resumed")


def signs_of(value: Any) -> NodeSigns | None:
    """Return the signs that a node has told as plain data; None for anything else."""
    if not isinstance(value, dict):
        return None
    silent, spoke, ranks, idle = (value.get(name) for name in ("silent", "spoke", "ranks", "idle"))
    known = isinstance(silent, (int, float)) and silent == silent and isinstance(spoke, bool)
    if not known or not isinstance(ranks, (list, tuple)) or not all(type(rank) is int for rank in ranks):
        return None
    seconds = float(idle) if isinstance(idle, (int, float)) and 0 <= idle < _LONGEST else 0.0
    return NodeSigns(float(silent or 0), bool(spoke), tuple(ranks), seconds)
