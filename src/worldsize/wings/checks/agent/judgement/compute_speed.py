"""Which nodes compute slower than the others, twice.

Pure. Standard library only: travels inside agent.pyz (Python >= 3.8).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

from worldsize.common.named_tuple import NamedTuple
from worldsize.common.numbers import bytes_text
from worldsize.state.check_rows import BAD, OK, UNKNOWN, WARNING, CheckRow
from worldsize.wings.checks.agent.cluster import CheckedNode, Cluster
from worldsize.wings.checks.agent.judgement.pairs import against_others, others_medians
from worldsize.wings.checks.agent.judgement.rounds import REAL_LOSS, ROUNDS, Compute, answer_of, compute_ratios

ID = "speed.compute"
WHAT = "computing"
SLOW, VERY_SLOW = 0.5, 0.4
"""Of the median of the others, in both rounds. Turbo clocks and a busy second thread of a core stay above it."""

SLOW_IF_KEPT = 0.7
"""The same where it is known that the node's threads were kept from running: no noise looks like that twice."""

BUSY, QUIET = 0.5, 0.2
"""The share of the time in which others have a node's cores, where that is worth a word; and that of most other nodes
then: where all are busy, nothing is said."""

STARVED = 0.4
"""Of the share of the time that the others' threads get, in both rounds: so it is where a node's control group limits
it, and does not show it. Four nodes of one machine of two cores got 0.85 of each other's at least, in 25 checks."""

_THROTTLED = (
    "its control group limits its CPU time: ask for more cores (Slurm: --cpus-per-task), "
    "or leave the node out (--exclude-bad)"
)
_STOPPED = (
    "something stops its processes repeatedly (cpulimit, a suspended job, a busy host of a virtual machine): "
    "leave it out (--exclude-bad)"
)
_SLOW_CLOCK = "its cores run slower (heat, power limit, another job's load on the host): leave it out (--exclude-bad)"
_OTHER_MODEL = "its processors are of another model than most: all ranks wait for it"
_BUSY = "another job or a leftover process runs there: ask for whole nodes (Slurm: --exclusive)"
_STARVED = "its CPU time is limited, or other processes have it: ask for more cores, or leave it out (--exclude-bad)"


class _Pace(NamedTuple):
    """How a node did in both rounds: its rate, and the time that its threads got, over that of the others in the better
    one; how busy the median of the others was in the worse one; and whether its processors are of the model that most
    have."""

    node: CheckedNode
    rounds: tuple[Compute, Compute]
    ratio: float
    got: float
    others: float
    same_model: bool


def compute_rows(cluster: Cluster) -> list[CheckRow]:
    """Return a row of each node that is slow, busy or unknown; one of all where none is."""
    known = [node for node in cluster.nodes if all(_measurement(node, name) for name in ROUNDS)]
    ranks = {node.node_rank for node in known}
    rows = [_unknown_row(node) for node in cluster.nodes if node.node_rank not in ranks]
    if known:
        found = [row for pace in _paces(known) for row in _row(pace, len(known))]
        rows = rows + (found or [_fine(known)])
    return rows


def _unknown_row(node: CheckedNode) -> CheckRow:
    """Return the row of a node that did not answer in both rounds, or whose measurement failed."""
    errors = [str(node.answers[name]["error"]) for name in ROUNDS if "error" in (node.answers.get(name) or {})]
    value = " ".join(errors[0].split())[:200] if errors else "no answer in time"
    return CheckRow(node.label, ID, WHAT, value, UNKNOWN, "the measurement did not end on this node")


def _measurement(node: CheckedNode, name: str) -> bool:
    return Compute(answer_of(node, name)).rate > 0


def _paces(known: Sequence[CheckedNode]) -> list[_Pace]:
    ratios = [compute_ratios(known, name) for name in ROUNDS]
    rounds = [tuple(Compute(answer_of(node, name)) for name in ROUNDS) for node in known]
    shares = [
        against_others({node.node_rank: 1 - pair[at].waited for node, pair in zip(known, rounds)}) for at in (0, 1)
    ]
    others = others_medians({node.node_rank: max(x.waited for x in pair) for node, pair in zip(known, rounds)})
    model, count = Counter(str(node.facts.get("cpu_model", "")) for node in known).most_common(1)[0]
    return [
        _Pace(
            node,
            (first, second),
            max(ratio[node.node_rank] for ratio in ratios),
            max(got[node.node_rank] for got in shares),
            others.get(node.node_rank, 1.0),
            str(node.facts.get("cpu_model", "")) == model or 2 * count <= len(known),
        )
        for node, (first, second) in zip(known, rounds)
    ]


def _row(pace: _Pace, count: int) -> list[CheckRow]:
    lost = min(each.lost for each in pace.rounds)
    slow = SLOW_IF_KEPT if lost >= REAL_LOSS else SLOW
    if pace.ratio < slow and (count > 2 or lost >= SLOW):
        return [CheckRow(pace.node.label, ID, WHAT, _slow_value(pace, lost), _slow_verdict(pace, count), _hint(pace))]
    waited = min(each.waited for each in pace.rounds)
    if waited >= BUSY and pace.others < QUIET:
        value = f"other processes have its cores for {waited:.0%} of the time"
        return [CheckRow(pace.node.label, ID, WHAT, value, WARNING, _BUSY)]
    if pace.got < STARVED and count > 2:
        value = f"waits for a core for {waited:.0%} of the time, and gets {pace.got:.0%} of the other nodes' CPU time"
        return [CheckRow(pace.node.label, ID, WHAT, value, WARNING, _STARVED)]
    return []


def _slow_value(pace: _Pace, lost: float) -> str:
    first = pace.rounds[0]
    value = f"{pace.ratio:.0%} of the other nodes' speed, twice ({_rate_text(first.rate)} per core)"
    if lost < REAL_LOSS:
        return value
    return f"{value}: {'throttled' if _is_throttled(pace) else 'stopped'} for {lost:.0%} of the time"


def _slow_verdict(pace: _Pace, count: int) -> str:
    """A few times slower is bad; of two nodes, or where the hardware is another one, it is for people to judge."""
    return BAD if pace.ratio < VERY_SLOW and count > 2 and pace.same_model else WARNING


def _is_throttled(pace: _Pace) -> bool:
    return sum(each.throttled - each.stopped for each in pace.rounds) > 0


def _hint(pace: _Pace) -> str:
    if min(each.lost for each in pace.rounds) >= REAL_LOSS:
        return _THROTTLED if _is_throttled(pace) else _STOPPED
    return _SLOW_CLOCK if pace.same_model else _OTHER_MODEL


def _fine(known: Sequence[CheckedNode]) -> CheckRow:
    rates = [Compute(answer_of(node, name)).rate for node in known for name in ROUNDS]
    value = f"{len(known)} nodes, {_rate_text(min(rates))} to {_rate_text(max(rates))} of MD5 per core"
    return CheckRow("", ID, WHAT, value, OK)


def _rate_text(rate: float) -> str:
    return f"{bytes_text(rate)}/s"
