"""Judgement of the nodes that compute slower than the others in both rounds.

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
"""Shares of the median of the others, in both rounds, below which a node is slow and very slow. Turbo clocks and a busy
second thread of a core stay above them."""

SLOW_IF_KEPT = 0.7
"""The same limit for a node whose threads are known to have been kept from running. Noise does not look like that
twice."""

BUSY, QUIET = 0.5, 0.2
"""The share of the time in which other processes have a node's cores from which it is reported, and the maximum share
of most other nodes in that case. If all nodes are busy, nothing is reported."""

STARVED = 0.4
"""A share of the CPU time that the others' threads get, in both rounds. A node below it has a control group that limits
its CPU time without showing it. Four nodes of one machine of two cores got at least 0.85 of each other's, in 25 checks.
"""

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
    """The speed of a node in both rounds. `ratio` is its rate, and `got` the share of the time that its threads got,
    both relative to the others' in the better round. `others` is how busy the median of the other nodes was in the
    worse round. `same_model` is whether its processors are of the model that most nodes have."""

    node: CheckedNode
    rounds: tuple[Compute, Compute]
    ratio: float
    got: float
    others: float
    same_model: bool


def compute_rows(cluster: Cluster) -> list[CheckRow]:
    """Return the rows speed.compute of the node check: one for each node that computes slowly, is busy, or is unknown;
    one for all nodes if none is slow or busy."""
    known = [node for node in cluster.nodes if all(_measurement(node, name) for name in ROUNDS)]
    ranks = {node.node_rank for node in known}
    rows = [_unknown_row(node) for node in cluster.nodes if node.node_rank not in ranks]
    if known:
        found = [row for pace in _paces(known) for row in _row(pace, len(known))]
        rows = rows + (found or [_fine(known)])
    return rows


def _unknown_row(node: CheckedNode) -> CheckRow:
    """Return the node check's row for a node that did not answer in both rounds of the speed measurement, or whose
    measurement failed."""
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
    """Return the verdict on a node that computes slowly: bad if it is several times slower than the others; a warning,
    for users to judge, with only two nodes or with different hardware."""
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
