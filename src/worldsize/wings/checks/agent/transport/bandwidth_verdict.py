"""How fast an all-reduce over all GPUs was, judged by the adapters' rate and by what others measured. Pure.

Standard library only: travels inside agent.pyz (Python >= 3.8).
"""

from __future__ import annotations

from collections.abc import Sequence

from worldsize.common.named_tuple import Any
from worldsize.state.check_rows import BAD, OK, UNKNOWN, WARNING, CheckRow
from worldsize.wings.checks.agent.cluster import CheckedNode
from worldsize.wings.checks.agent.tables.bandwidth import published_bandwidth
from worldsize.wings.checks.agent.transport import rates
from worldsize.wings.checks.agent.transport.answers import NodeAnswer, answer_of
from worldsize.wings.checks.agent.transport.nccl_summary import NcclSummary
from worldsize.wings.checks.agent.transport.nccl_verdict import is_tcp
from worldsize.wings.checks.agent.transport.ports import active_ports, rate_of

ROW_ID = "fabric.bandwidth"
_WHAT = "all-reduce over all GPUs"
_MIB = 1 << 20


def bandwidth_rows(nodes: Sequence[CheckedNode], ranks: int) -> list[CheckRow]:
    """The bandwidth of all together, wrong results by their nodes, and nodes whose ports carried nothing."""
    answers = [(node, answer_of(node)) for node in nodes]
    wrong = [_wrong(node) for node, answer in answers if answer.correct is False]
    if wrong:
        return wrong
    slowest = max((answer for _, answer in answers), key=lambda answer: answer.seconds, default=NodeAnswer())
    if not slowest.seconds:
        return [_row("not measured", UNKNOWN, _why_not(answers))]
    return [_speed(answers, slowest, ranks), *_silent_ports(answers)]


def _wrong(node: CheckedNode) -> CheckRow:
    hint = "leave this node out: a GPU, an NVLink or a driver that computes wrongly spoils every training"
    return CheckRow(node.label, ROW_ID, _WHAT, "a wrong result", BAD, hint)


def _why_not(answers: Sequence[tuple[CheckedNode, NodeAnswer]]) -> str:
    """The first failure that says something; that a node is late often follows from another's failure."""
    failures = [(node.label, answer.failure) for node, answer in answers if answer.failure]
    told = [failure for failure in failures if not failure[1].startswith(("no answer", "another"))] or failures
    return f"{told[0][0]}: {told[0][1]}" if told else "the measurement gave no time"


def _speed(answers: Sequence[tuple[CheckedNode, NodeAnswer]], slowest: NodeAnswer, ranks: int) -> CheckRow:
    measured = rates.bus_bandwidth(slowest.size, slowest.seconds, ranks)
    value = f"{measured:.3g} GB/s bus bandwidth at {slowest.size // _MIB} MiB"
    if slowest.size < rates.SMALLEST:
        return _row(value, UNKNOWN, f"nothing below {rates.SMALLEST // _MIB} MiB is judged")
    if len(answers) > 1:
        return _against_rate(answers, measured, value, ranks)
    return _against_others(answers[0][0], measured, value, ranks, slowest.size // _MIB)


def _against_rate(
    answers: Sequence[tuple[CheckedNode, NodeAnswer]], measured: float, value: str, ranks: int
) -> CheckRow:
    summaries = [answer.nccl for _, answer in answers if answer.nccl]
    if any(summary.one_domain for summary in summaries):
        return _row(f"{value}, over NVLink between nodes", OK)
    known = [_node_rate(node, answer) for node, answer in answers]
    share = rates.share_of_rate(measured, len(answers), ranks, min(known) if known else 0.0)
    if share is None:
        return _row(value, UNKNOWN, "the rate of the adapters is not known, so there is nothing to compare it with")
    value = f"{value}, {share:.0%} of the adapters' rate"
    return _row(value, *_of_share(share, any(map(is_tcp, summaries))))


def _of_share(share: float, tcp: bool) -> tuple[str, str]:
    """Verdict and hint. TCP rarely fills a fast interface, and how far it does says little: only the worst counts."""
    if share < rates.FAR:
        return WARNING, "see the row transport.nccl first: so little is usual where a slower way was taken"
    if share < rates.POOR and not tcp:
        usual = f"fabrics that are right reach {rates.GOOD:.0%}"
        return WARNING, f"{usual}; look for other jobs on the fabric, errors of its links, adapters far from their GPUs"
    return OK, ""


def _node_rate(node: CheckedNode, answer: NodeAnswer) -> float:
    """Gb/s of what NCCL used on this node; 0 where it is not known."""
    summary = answer.nccl or NcclSummary()
    if is_tcp(summary):
        return sum(_number(answer.speeds.get(name)) for name in summary.interfaces)
    return rate_of(active_ports(node.facts), summary.devices)


def _against_others(node: CheckedNode, measured: float, value: str, ranks: int, mib: int) -> CheckRow:
    known = published_bandwidth(_model(node), ranks, 1, mib)
    if known is None:
        return _row(value, OK)
    value = f"{value}, {known.gb_per_s:g} GB/s are published"
    if measured >= known.gb_per_s / 2:
        return _row(value, OK)
    return _row(value, WARNING, f"less than half of what others measured ({known.source}); see the row transport.nccl")


def _model(node: CheckedNode) -> str:
    gpus = node.facts.get("gpus")
    models = {str(gpu.get("model", "")) for gpu in gpus if isinstance(gpu, dict)} if isinstance(gpus, list) else set()
    return models.pop() if len(models) == 1 else ""


def _silent_ports(answers: Sequence[tuple[CheckedNode, NodeAnswer]]) -> list[CheckRow]:
    """Nodes whose ports sent less than half of the least that they must have. Counters that stand still may be
    those of a virtual function, which prove nothing."""
    rows = []
    for node, answer in answers if len(answers) > 1 else ():
        least = rates.least_sent(answer.size, answer.times) / 2
        summary = answer.nccl or NcclSummary(one_domain=True)
        if answer.sent and answer.sent < least and not summary.one_domain and not is_tcp(summary):
            value = f"its ports sent {_gib(answer.sent)} of at least {_gib(2 * least)}"
            rows.append(CheckRow(node.label, ROW_ID, "the fabric's counters", value, WARNING, _SILENT))
    return rows


_SILENT = "the fabric carried less than NCCL says: see which adapters the row transport.nccl names"


def _gib(size: float) -> str:
    return f"{size / (1 << 30):.2g} GiB"


def _number(value: Any) -> float:
    return float(value) if type(value) in (int, float) and value > 0 else 0.0


def _row(value: str, verdict: str, hint: str = "") -> CheckRow:
    return CheckRow("", ROW_ID, _WHAT, value, verdict, hint)
