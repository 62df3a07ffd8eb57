"""What a trial does, from its number alone: the job, the moment, the faults, and what may come of it. Pure."""

from __future__ import annotations

import random
from typing import NamedTuple

from chaos.kinds import CANCELLED, EXIT_CODE, KINDS, SUCCESS, Kind, Outcome

NODES = 2
RANKS = {
    ("local", "ranks"): 2,
    ("local", "tree"): 2,
    ("local", "script"): 1,
    ("local", "array"): 1,
    ("slurm", "ranks"): 1,
    ("slurm", "tree"): 1,
    ("slurm", "script"): 1,
    ("slurm", "array"): 1,
}
"""Ranks per node."""

ELEMENTS = 2
LINES = 8
CAUSES = {"stopping": EXIT_CODE, "cancelling": CANCELLED}
"""What a run is ended for at these moments already: whatever is struck then does not change why."""

ON_NODES = ("agent", "keeper", "stepd", "slurmd", "network", "power")
TWO_AT_ONCE = 0.2
TOGETHER = ("rank", "child", "agent", "keeper", "srun", "shell")
"""Victims of which two may be struck at once."""


class Strike(NamedTuple):
    """`place` is the rank (of a rank or a child) or the node of the victim."""

    victim: str
    how: str
    place: int

    def __str__(self) -> str:
        return "%s %s %d" % (self.how, self.victim, self.place)


class Trial(NamedTuple):
    """`line` of rank `speaker` is the event at the moment "line"."""

    compute: str
    seed: int
    number: int
    job: str
    moment: str
    speaker: int
    line: int
    strikes: tuple[Strike, ...]
    outcomes: frozenset[Outcome]

    @property
    def id(self) -> str:
        return "%s-%d-%d" % (self.compute, self.seed, self.number)

    @property
    def kind(self) -> str:
        """What it counts as in the table of trials."""
        return " and ".join("%s %s" % (strike.victim, strike.how) for strike in self.strikes)

    @property
    def nodes(self) -> int:
        return 1 if self.job == "array" else NODES

    @property
    def ranks(self) -> int:
        return self.nodes * RANKS[self.compute, self.job]

    def __str__(self) -> str:
        when = "rank %d has written line %d" % (self.speaker, self.line) if self.moment == "line" else self.moment
        return "%s: %s, %s: %s" % (self.id, self.job, when, ", ".join(map(str, self.strikes)))


def trial(compute: str, seed: int, number: int) -> Trial:
    """The trial of this number: kinds take turns, so that few trials know many; the rest is chance."""
    dice = random.Random("%s %d %d" % (compute, seed, number))
    kinds = KINDS[compute]
    kind = kinds[number % len(kinds)]
    job, moment = dice.choice([(job, moment) for job in kind.jobs for moment in kind.moments if _fits(job, moment)])
    nodes = 1 if job == "array" else NODES
    each = RANKS[compute, job]
    first = _strike(kind, job, nodes, each, moment, dice)
    strikes, outcomes = (first,), _outcomes(kind, job, moment)
    second = dice.choice(kinds)
    if dice.random() < TWO_AT_ONCE and _may_join(kind, second, job, moment):
        other = _strike(second, job, nodes, each, moment, dice)
        if (other.victim, other.place) != (first.victim, first.place):
            strikes += (other,)
            outcomes = _of_both(outcomes, _outcomes(second, job, moment))
    speaker, line = dice.randrange(nodes * each), dice.randint(1, LINES)
    return Trial(compute, seed, number, job, moment, speaker, line, strikes, outcomes)


def _fits(job: str, moment: str) -> bool:
    """A script's ranks are its own; of an array, one element alone would leave or fail."""
    return (
        moment
        in {
            "ranks": ("setup", "meeting", "line", "ending", "stopping", "cancelling"),
            "tree": ("line", "stopping", "cancelling"),
            "script": ("line", "stopping", "cancelling"),
            "array": ("line",),
        }[job]
    )


def _strike(kind: Kind, job: str, nodes: int, each: int, moment: str, dice: random.Random) -> Strike:
    """At the moment "ending" rank 0 has left, at "stopping" it has failed."""
    among = {"rank": nodes * each, "child": nodes * each, **dict.fromkeys(ON_NODES, nodes)}.get(kind.victim, 1)
    if kind.victim in ("agent", "keeper") and job == "script":
        among = 1
    least = 1 if kind.victim in ("rank", "child") and moment in ("ending", "stopping") else 0
    return Strike(kind.victim, kind.how, dice.randrange(least, among))


def _outcomes(kind: Kind, job: str, moment: str) -> frozenset[Outcome]:
    """A script may go on from a step that has failed: until it ends, its run has not."""
    if moment not in CAUSES:
        return kind.outcomes
    earlier = job == "script" and moment == "stopping" and kind.victim not in ("rank", "child")
    also = kind.outcomes - {SUCCESS} if earlier else frozenset()
    return frozenset((CAUSES[moment], *also))


def _may_join(first: Kind, second: Kind, job: str, moment: str) -> bool:
    known = first.victim in TOGETHER and second.victim in TOGETHER
    return known and first.how != "STOP" != second.how and job in second.jobs and moment in second.moments


def _of_both(one: frozenset[Outcome], other: frozenset[Outcome]) -> frozenset[Outcome]:
    """Either may be the first to be heard of; a success takes two faults that do no harm."""
    return one | other if one == other else (one | other) - {SUCCESS}
