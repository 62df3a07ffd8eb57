"""Check that the nodes' clocks agree.

It gives a warning from 1 s on: lines of logs are in the wrong order, and `make`, rsync and caches rely on the times of
files that another node wrote. It is bad from 300 s on: that is the lifetime of a MUNGE credential (munged(8)) and the
skew that Kerberos allows (`clockskew` in krb5.conf(5)), so that Slurm's steps, and mounts by Kerberos, are refused.

Standard library only: travels inside agent.pyz (Python >= 3.8).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from worldsize.common.named_tuple import NamedTuple
from worldsize.state.check_rows import BAD, OK, UNKNOWN, WARNING, CheckRow
from worldsize.wings.checks.agent.cluster import CheckedNode
from worldsize.wings.checks.agent.judgement.numbers import duration_text, median_of

ID = "clock"

WARNING_FROM = 1.0
BAD_FROM = 300.0
"""The differences in seconds from which a clock gets a warning, and is bad."""

_WHAT = "the nodes' clocks"

_HINT = "let an NTP client set the clock of {}; `timedatectl` and `chronyc tracking` show its state"


class ClockOffset(NamedTuple):
    """The number of seconds that a node's clock is ahead of the head's, and the uncertainty in either direction: half
    of the round trip of the query."""

    seconds: float
    uncertainty: float


def best_offset(exchanges: Sequence[tuple[int, int, int]]) -> ClockOffset | None:
    """Return the offset of this node's clock from another node's, from the exchange with the shortest round trip. Each
    exchange is this node's time before, the other node's time, and this node's time after, in ns. None without a usable
    exchange; one in which the clock was set back is not usable."""
    whole = [(after - before, before, other) for before, other, after in exchanges if after >= before]
    if not whole:
        return None
    trip, before, other = min(whole)
    return ClockOffset((before + trip / 2 - other) / 1e9, trip / 2e9)


def clock_rows(nodes: Sequence[CheckedNode], offsets: Mapping[int, ClockOffset]) -> list[CheckRow]:
    """Return the rows "clock" of the node check: one for each node whose clock differs from most (with fewer than three
    nodes: from the head's), and for each that has not reported its offset; otherwise one for all nodes. `offsets` are
    those of the nodes to the head's clock, by their ranks, including the head's own 0. Empty for a single node."""
    if len(nodes) < 2:
        return []
    usual = _usual(nodes, offsets)
    rows = [row for node in nodes for row in _rows_of(node, offsets.get(node.node_rank), usual, nodes)]
    return rows or [_agreement(offsets)]


def _usual(nodes: Sequence[CheckedNode], offsets: Mapping[int, ClockOffset]) -> float:
    """Return the clock offset, in seconds, that all nodes are compared with: the median, because the head's clock may
    be the wrong one. For two nodes it is the head's."""
    seconds = [offset.seconds for offset in offsets.values()]
    return median_of(seconds) if len(seconds) > 2 else offsets.get(nodes[0].node_rank, ClockOffset(0.0, 0.0)).seconds


def _rows_of(
    node: CheckedNode, offset: ClockOffset | None, usual: float, nodes: Sequence[CheckedNode]
) -> list[CheckRow]:
    if offset is None:
        return [
            CheckRow(node.label, ID, _WHAT, "not compared", UNKNOWN, "the node could not ask the head for its time")
        ]
    skew = offset.seconds - usual
    if abs(skew) < WARNING_FROM + offset.uncertainty:
        return []
    verdict = BAD if abs(skew) >= BAD_FROM + offset.uncertainty else WARNING
    than = f"{nodes[0].label}'s" if len(nodes) == 2 else "most others'"
    value = f"{duration_text(abs(skew))} {'ahead of' if skew > 0 else 'behind'} {than}"
    return [CheckRow(node.label, ID, _WHAT, value, verdict, _HINT.format(node.label))]


def _agreement(offsets: Mapping[int, ClockOffset]) -> CheckRow:
    seconds = [offset.seconds for offset in offsets.values()]
    within = max(seconds) - min(seconds) + max(offset.uncertainty for offset in offsets.values())
    return CheckRow("", ID, _WHAT, f"{len(offsets)} nodes, within {duration_text(within)}", OK)
