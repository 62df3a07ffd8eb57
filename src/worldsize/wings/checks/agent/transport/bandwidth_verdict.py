"""Verdict on the speed of an all-reduce over all GPUs, compared with the adapters' rate and with published
measurements. Pure.

Standard library only: travels inside agent.pyz (Python >= 3.8).
"""

from __future__ import annotations

from collections.abc import Sequence

from worldsize.common.named_tuple import NamedTuple
from worldsize.state.check_rows import BAD, OK, UNKNOWN, WARNING, CheckRow
from worldsize.wings.checks.agent.cluster import CheckedNode
from worldsize.wings.checks.agent.judgement.answers import number_in
from worldsize.wings.checks.agent.judgement.groups import mapping_of
from worldsize.wings.checks.agent.tables.bandwidth import published_bandwidth
from worldsize.wings.checks.agent.transport.nccl_summary import NcclSummary
from worldsize.wings.checks.agent.transport.nccl_verdict import is_tcp
from worldsize.wings.checks.agent.transport.node_answer import NodeAnswer, answer_of
from worldsize.wings.checks.agent.transport.ports import active_ports, rate_of

ROW_ID = "fabric.bandwidth"
WHAT = "all-reduce over all GPUs"

SMALLEST = 512 * 1024 * 1024
"""The size in bytes below which no bandwidth is judged. On the same fabric 512 MiB reached 63 % of the adapters' rate,
64 MiB 30 %, 16 MiB 12.5 % (stas00/ml-engineering)."""

GOOD = 0.70
"""The share of the adapters' rate that healthy fabrics reach: measured fabrics reached 71 to 73 % at 1 GiB and more."""

POOR = 0.50
"""The share below which something is wrong if GPUDirect RDMA was used. It is not a published number: see GOOD."""

FAR = 0.25
"""The share below which the transport is the first thing to examine: TCP reached 20 % of its InfiniBand (AReaL#639)."""

_WRONG = "leave this node out: a GPU, an NVLink or a driver that computes wrongly spoils every training"
_ALL_WRONG = "one GPU, NVLink or driver spoils the result of all: check halves of the nodes until it is found"
_SILENT = "the fabric carried less than NCCL reported: see which adapters the row transport.nccl names"
_MIB, _GIB = 1 << 20, 1 << 30


class _Told(NamedTuple):
    """A node and its answer in the stage `bandwidth`."""

    node: CheckedNode
    answer: NodeAnswer

    @property
    def summary(self) -> NcclSummary:
        return self.answer.nccl or NcclSummary()


def bus_bandwidth(size: float, seconds: float, ranks: int) -> float:
    """Compute the bus bandwidth in GB/s (10^9 bytes) of an all-reduce of `size` bytes, by the formula of nccl-tests; 0
    if nothing was measured."""
    return size / seconds * 2 * (ranks - 1) / ranks / 1e9 if ranks > 1 and seconds > 0 else 0.0


def share_of_rate(bandwidth: float, nodes: int, ranks: int, gbps_per_node: float) -> float | None:
    """Compute the share of its adapters' rate (`gbps_per_node`, in Gb/s) at which a node sends into the network during
    an all-reduce with this bus bandwidth. Each of its ranks sends `bandwidth` × (k - 1) / (n - 1), for k nodes and n
    ranks. None if the rate is not known, or if there is only one node."""
    if gbps_per_node <= 0 or not 1 < nodes <= ranks:
        return None
    return bandwidth * (nodes - 1) / (ranks - 1) * ranks / nodes / (gbps_per_node / 8)


def bandwidth_rows(nodes: Sequence[CheckedNode], ranks: int) -> list[CheckRow]:
    """Return the rows fabric.bandwidth about the all-reduce over `ranks` GPUs of these nodes. They name the nodes with
    wrong results, if any; otherwise the bandwidth of all nodes together (unknown if not measured) and the nodes whose
    ports sent too little."""
    told = [_Told(node, answer_of(node)) for node in nodes]
    wrong = [each.node.label for each in told if each.answer.correct is False]
    if wrong:
        return _wrong_rows(wrong, len(nodes))
    slowest = max((each.answer for each in told), key=lambda answer: answer.seconds, default=NodeAnswer())
    if not slowest.seconds:
        return [_row("not measured", UNKNOWN, _why_not(told))]
    return [_speed(told, slowest, ranks), *_silent_ports(told)]


def _wrong_rows(labels: Sequence[str], nodes: int) -> list[CheckRow]:
    """Return a bad row fabric.bandwidth for each of the `labels`, which name the nodes with a wrong result of the
    all-reduce. Return a single row if all of several nodes have one: a wrong number spreads to all, so that its origin
    cannot be named."""
    if len(labels) == nodes > 1:
        return [_row("a wrong result on all nodes", BAD, _ALL_WRONG)]
    return [CheckRow(label, ROW_ID, WHAT, "a wrong result", BAD, _WRONG) for label in labels]


def _why_not(told: Sequence[_Told]) -> str:
    """Return the reason why the all-reduce has no result, as text: the first informative failure of a node. The failure
    of a node that is late comes last, because it often follows from the first failure."""
    failures = [(node.label, answer.failure) for node, answer in told if answer.failure]
    telling = [each for each in failures if not each[1].startswith("no answer")] or failures
    return ": ".join(telling[0]) if telling else "the measurement has no result"


def _speed(told: Sequence[_Told], slowest: NodeAnswer, ranks: int) -> CheckRow:
    measured = bus_bandwidth(slowest.size, slowest.seconds, ranks)
    value = f"{measured:.3g} GB/s bus bandwidth at {slowest.size // _MIB} MiB"
    if slowest.size < SMALLEST:
        return _row(value, UNKNOWN, f"nothing below {SMALLEST // _MIB} MiB is judged")
    if len(told) > 1:
        return _against_rate(told, measured, value, ranks)
    return _against_others(told[0].node, measured, value, ranks, slowest.size // _MIB)


def _against_rate(told: Sequence[_Told], measured: float, value: str, ranks: int) -> CheckRow:
    """Return the row fabric.bandwidth that compares the measured bus bandwidth (`measured`, in GB/s; `value` is its
    text) with the adapters' rate. TCP is never judged: its share of an interface's rate means little, and the rates of
    virtual interfaces mean nothing."""
    if any(each.summary.one_domain for each in told):
        return _row(f"{value}, over NVLink between nodes", OK)
    is_whole = ranks == sum(len(_models(each.node)) for each in told)
    share = share_of_rate(measured, len(told), ranks, min(_node_rate(each, is_whole) for each in told))
    if any(is_tcp(each.summary) for each in told):
        return _row(f"{value}, {share:.0%} of the interfaces' rate, by TCP" if share else f"{value}, by TCP", OK)
    if share is None:
        return _row(value, UNKNOWN, "the rate of the adapters is not known, so there is nothing to compare it with")
    is_direct = all(each.summary.is_direct for each in told)
    return _row(f"{value}, {share:.0%} of the adapters' rate", *_of_share(share, is_direct))


def _of_share(share: float, is_direct: bool) -> tuple[str, str]:
    """Return the verdict and hint of the row fabric.bandwidth for this share of the adapters' rate. Transfers through
    host memory may be slow for reasons that cannot be fixed, so a share between FAR and POOR is a warning only if they
    are direct."""
    if share < FAR:
        return WARNING, "see the row transport.nccl first: this rate is usual for a slower transport"
    if share < POOR and is_direct:
        usual = f"a working fabric reaches {GOOD:.0%}"
        return WARNING, f"{usual}; look for other jobs on the fabric, errors of its links, adapters far from their GPUs"
    return OK, ""


def _node_rate(told: _Told, is_whole: bool) -> float:
    """Return the total rate in Gb/s of the adapters or interfaces that NCCL used on the node; 0 if it is not known. If
    NCCL's lines do not name the adapters, a run on all GPUs of the node (`is_whole`) counts as using all of them."""
    if is_tcp(told.summary):
        return sum(number_in(told.answer.speeds, name) or 0.0 for name in told.summary.interfaces)
    ports = active_ports(told.node.facts)
    return rate_of(ports, told.summary.used or ([port.name for port in ports] if is_whole else []))


def _against_others(node: CheckedNode, measured: float, value: str, ranks: int, mib: int) -> CheckRow:
    models = set(_models(node))
    known = published_bandwidth(models.pop(), ranks, 1, mib) if len(models) == 1 else None
    if known is None:
        return _row(value, OK)
    value = f"{value}, published: {known.gb_per_s:g} GB/s"
    if measured >= known.gb_per_s / 2:
        return _row(value, OK)
    return _row(value, WARNING, f"less than half of what others measured ({known.source}); see the row transport.nccl")


def _models(node: CheckedNode) -> list[str]:
    gpus = node.facts.get("gpus")
    return [str(mapping_of(gpu).get("model", "")) for gpu in gpus] if isinstance(gpus, list) else []


def _silent_ports(told: Sequence[_Told]) -> list[CheckRow]:
    """Return a warning row fabric.bandwidth for each node whose fabric ports sent less than half of the bytes that each
    node must send in the all-reduce with any algorithm. With reductions in the switches, each byte leaves the node
    once. Counters that did not change prove nothing, because they may belong to a virtual function."""
    rows = []
    for node, answer in told if len(told) > 1 else ():
        least, summary = answer.size * answer.times, answer.nccl
        if summary and 0 < answer.sent < least / 2 and not summary.one_domain and not is_tcp(summary):
            value = f"its ports sent {answer.sent / _GIB:.2g} GiB of at least {least / _GIB:.2g} GiB"
            rows.append(CheckRow(node.label, ROW_ID, "the fabric's counters", value, WARNING, _SILENT))
    return rows


def _row(value: str, verdict: str, hint: str = "") -> CheckRow:
    return CheckRow("", ROW_ID, WHAT, value, verdict, hint)
