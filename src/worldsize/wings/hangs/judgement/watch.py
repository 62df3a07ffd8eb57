"""A pure rule that decides when a silent run is looked at, from the reports of its nodes and a clock.

A sign of life is a line that a rank has written, bytes that its processes have moved, or a GPU that works, as its power
and memory traffic show (`gpu_signs.py`). CPU time is not a sign of life, and neither is a GPU's utilisation: NCCL and
MPI spin on both while they wait. So silence only makes a run suspect, and two samples of its stacks show whether it
works. A run that works is looked at again later.

Standard library only: travels inside agent.pyz (Python >= 3.8).
"""

from __future__ import annotations

from collections.abc import Collection, Mapping

from worldsize.common.named_tuple import Any, NamedTuple

FIRST_FACTOR = 6
"""The multiple of the limit for which a run may be silent before its first output: imports, downloads, compilation."""

LONG_WORK_FACTOR = 6
"""The multiple of the limit for which a checkpoint or a compilation may be silent: 0.1 h for 60 s."""

LONGEST_FACTOR = 6
"""The largest multiple of the limit after which a run that works in silence is looked at. The looks come after 1, 2, 4
and 6 times the limit, and then once per limit."""

GAP_SHARE, SHORTEST_GAP, LONGEST_GAP = 0.1, 0.2, 5.0
"""The time between the two samples of stacks: a share of the limit, and its minimum and maximum in seconds."""

_SAMPLES = 2
"""The number of samples for one judgement."""

LONGEST_DOUBT = 10.0
"""The longest time, in seconds, for which signs of life of a run that was called stuck must last to mean progress."""

_LONGEST = 1e9

ANSWER_TIME = 30.0
"""Seconds to wait for the nodes to sample their ranks."""


QUIET_BYTES_AT_START = 16384
"""Bytes per second that a rank may move while it waits at the rendezvous. The rank that serves the rendezvous polls
itself a hundred times a second for the ranks that have joined, which moves about 4,400 bytes."""


class NodeSigns(NamedTuple):
    """The signs of life that a node reports for its ranks.

    silent  seconds since the last sign of life of any of its ranks
    spoke   whether any of its ranks has written a line yet
    ranks   the ranks that are alive, ascending
    idle    seconds for which all of their GPUs have been seen idle, after they had worked; 0 if that is unknown
    """

    silent: float
    spoke: bool
    ranks: tuple[int, ...]
    idle: float = 0.0


class Step(NamedTuple):
    """The next step of the watch over a silent run.

    action   "sample": each node samples its stacks; "judge": the samples `numbers` are judged; "resumed": report that a
             run which was called stuck makes progress again
    number   for "sample", the number of this sample, counted from 1 over the whole run
    numbers  for "judge", the numbers of the samples
    is_last  for "sample", whether it is the last one before a judgement
    """

    action: str
    number: int = 0
    numbers: tuple[int, ...] = ()
    is_last: bool = False


class Watch:
    """The watch of the head over the silence of all nodes of a run: it decides when the stacks are sampled and judged.
    Times are seconds of one monotonic clock."""

    def __init__(self, limit: float, now: float) -> None:
        """Start the watch over a silent run at time `now`. `limit` is the number of seconds of silence after which a
        run that has begun to write output is suspected."""
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
        """The number of samples that have been requested so far."""
        return self._number

    def step(self, signs: Mapping[int, NodeSigns], nodes: Collection[int], now: float) -> Step | None:
        """Return the watch's next step at time `now` (take or judge a sample of stacks, or report progress), by the
        latest signs of life of each of `nodes`; None if there is nothing to do."""
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
        """Record that a node has taken sample `number` of its ranks' stacks. A number other than that of the latest
        requested sample is ignored."""
        if number == self._number:
            self._answered.add(node)

    def note_judgement(self, stuck: bool, now: float) -> None:
        """Record at time `now` whether the samples of stacks were judged to show that the run is stuck. The next look
        at a run that works comes after a longer silence."""
        self._judging, self._taken, self._stuck = False, (), stuck
        self._looked_at = now
        if not stuck:
            self._factor = min(LONGEST_FACTOR, 2 * self._factor)

    def _silence(self, signs: Mapping[int, NodeSigns], nodes: Collection[int]) -> float:
        """Return the seconds since the last sign of life of any rank on `nodes`; 0 if a node has not reported, or if no
        rank is alive."""
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
        if silent < self._limit / 2:  # the run makes progress again, before a judgement
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
        """Return the watch's next step after a run was called stuck: "resumed" once signs of life have lasted long
        enough, else None. Output that a run writes as it ends, such as the traceback of a timeout, is not progress."""
        if silent >= self._limit / 2:
            self._alive_at = None
            return None
        self._alive_at = self._alive_at if self._alive_at is not None else now
        if now - self._alive_at < min(LONGEST_DOUBT, self._limit / 4):
            return None
        self._stuck, self._factor, self._looked_at, self._alive_at = False, 1.0, now, None
        return Step("resumed")


def signs_of(value: Any) -> NodeSigns | None:
    """Return the signs of life (NodeSigns) that a node has reported as a JSON object; None for a value that is not such
    a report."""
    if not isinstance(value, dict):
        return None
    silent, spoke, ranks, idle = (value.get(name) for name in ("silent", "spoke", "ranks", "idle"))
    known = isinstance(silent, (int, float)) and silent == silent and isinstance(spoke, bool)
    if not known or not isinstance(ranks, (list, tuple)) or not all(type(rank) is int for rank in ranks):
        return None
    seconds = float(idle) if isinstance(idle, (int, float)) and 0 <= idle < _LONGEST else 0.0
    return NodeSigns(float(silent or 0), bool(spoke), tuple(ranks), seconds)
