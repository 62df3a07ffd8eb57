"""Judgement of the reports of the ranks in the check of a collective.

Pure. Standard library only: travels inside agent.pyz (Python >= 3.8).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence

from worldsize.common.atomic_files import printable_text
from worldsize.common.named_tuple import Any, NamedTuple
from worldsize.common.numbers import parse_digits
from worldsize.state.check_rows import BAD, OK, UNKNOWN, WARNING, CheckRow
from worldsize.wings.checks.agent.cluster import CheckedNode
from worldsize.wings.checks.agent.judgement.answers import number_in
from worldsize.wings.checks.agent.judgement.groups import mapping_of

ID = "collective.result"
WHAT = "an all-reduce over all ranks"

STAGES = ("", "started", "imported", "connected", "gathered", "joined", "done")

EARLY = 5.0
"""A time in seconds from the start of the collective. A failure before it has a cause of its own; a later failure is
the result of waiting for another rank."""

HANGS = 15.0
"""The seconds without a report from any rank after which the collective counts as hanging, if all ranks have started.
On a machine where everything takes ten times as long, joining takes three seconds."""

_WRONG = (
    "training would be wrong without an error: leave the node out (--exclude-bad), and report it to the administrators"
)
_IMPORT = "the rows of the environment have details: is it the one that the job uses, and installed on this node?"
_LATE = "the environment loads slowly here; the collective was not tested"
_PORT = "ranks cannot join there: open the ports between the nodes, or see network.port"
_ALONE = "it did not get far enough to join the others: the collective was not tested"
_FULL = "others use these GPUs, or their memory: see gpu.memory"
_ALL_WRONG = "one GPU, card or memory spoils the result of all: check halves of the nodes until it is found"
_TOGETHER = {
    "gloo": "see network.names and network.interface; GLOO_SOCKET_IFNAME sets gloo's interface",
    "nccl": "NCCL_DEBUG=INFO prints more; NCCL_SOCKET_IFNAME sets NCCL's interface",
}


class _Rank(NamedTuple):
    """A rank's report, and the node on which it ran."""

    node: CheckedNode
    number: int
    stage: int
    report: Mapping[str, Any]

    @property
    def error(self) -> str:
        return _line(self.report.get("error", ""))

    @property
    def silent(self) -> float:
        """The seconds without a report from the rank until it was terminated; 0 for a rank that ended by itself."""
        return number_in(self.report, "silent") or 0.0


def collective_rows(nodes: Sequence[CheckedNode], backend: str) -> list[CheckRow]:
    """Return the rows collective.result of the node check, on an all-reduce over all ranks: one row for all nodes if it
    was right, otherwise rows of the nodes that caused the first step to go wrong."""
    if not nodes:
        return []
    ranks = [rank for node in nodes for rank in _ranks(node)]
    steps = (_wrong(ranks), _silent(nodes), _import_rows(ranks), _connection_rows(ranks), _not_together(ranks, backend))
    return next((rows for rows in steps if rows), None) or [_right(nodes, ranks, backend)]


def _ranks(node: CheckedNode) -> list[_Rank]:
    reports = mapping_of(mapping_of(node.answers.get("collective")).get("ranks"))
    return [_rank(node, number, report) for number, report in reports.items() if isinstance(report, Mapping)]


def _rank(node: CheckedNode, number: str, report: Mapping[str, Any]) -> _Rank:
    stage = report.get("stage", "")
    at = parse_digits(number)
    return _Rank(node, -1 if at is None else at, STAGES.index(stage) if stage in STAGES else 0, report)


def _rows(found: Sequence[tuple[_Rank, str]], verdict: str, hint: str) -> list[CheckRow]:
    """Return a row of the node check's collective for each node that has some of the ranks in `found`, with the words
    of the node's first rank."""
    first: dict[int, CheckRow] = {}
    for rank, words in found:
        row = CheckRow(rank.node.label, ID, WHAT, f"rank {rank.number} {words}", verdict, hint)
        first.setdefault(rank.node.node_rank, row)
    return list(first.values())


def _wrong(ranks: Sequence[_Rank]) -> list[CheckRow]:
    """Return the rows of the node check for ranks whose all-reduce had a wrong result, one for each node. A wrong
    number spreads: if all nodes have it, there is one row without a node, because the cause is not known."""
    found = [(rank, f"got a wrong result: {_line(rank.report['wrong'])}") for rank in ranks if "wrong" in rank.report]
    rows = _rows(found, BAD, _WRONG)
    nodes = {rank.node.node_rank for rank in ranks}
    return [rows[0]._replace(node="", hint=_ALL_WRONG)] if len(rows) == len(nodes) > 1 else rows


def _silent(nodes: Sequence[CheckedNode]) -> list[CheckRow]:
    hint = "no rank was started there, so no rank could join"
    return [CheckRow(node.label, ID, WHAT, _why_silent(node), UNKNOWN, hint) for node in nodes if not _ranks(node)]


def _why_silent(node: CheckedNode) -> str:
    return _line(mapping_of(node.answers.get("collective")).get("error") or "no answer in time")


def _import_rows(ranks: Sequence[_Rank]) -> list[CheckRow]:
    found = [rank for rank in ranks if rank.stage < STAGES.index("imported")]
    failed = [(rank, f"cannot import torch: {rank.error}") for rank in found if rank.error]
    if failed:
        return _rows(failed, UNKNOWN, _IMPORT)
    return _rows([(rank, "was still importing torch") for rank in found], UNKNOWN, _LATE)


def _connection_rows(ranks: Sequence[_Rank]) -> list[CheckRow]:
    """Return the rows of the node check for the ranks that did not reach rank 0 before the all-reduce, one for each
    node; a single row of the head if no other node reached it."""
    found = [rank for rank in ranks if rank.stage < STAGES.index("connected")]
    head = next((rank for rank in ranks if rank.number == 0), None)
    told = [rank for rank in found if "port" not in rank.report or rank is head]
    if told:
        return _rows([(rank, rank.error or "did not receive the address of rank 0") for rank in told], UNKNOWN, _ALONE)
    if not found or head is None or head.error:
        return []
    refused = [rank for rank in found if rank.error or rank.silent >= HANGS]
    if not refused:
        return _rows([(rank, "was still looking for rank 0") for rank in found], UNKNOWN, _LATE)
    words = f"at port {number_in(head.report, 'port') or 0:.0f}"
    others = [rank for rank in ranks if rank.node is not head.node]
    if len(refused) == len(others) > 1:
        value = f"no other node reaches rank 0 {words}: {refused[0].error or 'no answer'}"
        return [CheckRow(head.node.label, ID, WHAT, value, BAD, _PORT)]
    return _rows(
        [(rank, f"does not reach rank 0 {words}: {rank.error or 'no answer'}") for rank in refused], BAD, _PORT
    )


def _not_together(ranks: Sequence[_Rank], backend: str) -> list[CheckRow]:
    """Return the row of the node check for an all-reduce that failed or did not end although its ranks had started;
    empty if all ranks completed it. A long duration alone is no proof for NCCL, which has much to load and to set up.
    """
    found = [rank for rank in ranks if rank.stage < STAGES.index("done")]
    if not found:
        return []
    joining = [rank for rank in found if rank.stage >= STAGES.index("connected")]
    early = [rank for rank in joining if rank.error and (number_in(rank.report, "lasted") or 0.0) < EARLY]
    if early:
        is_full = all("out of memory" in rank.error.lower() for rank in early)
        value = f"{backend} fails on {{}}: {_commonest(early)}"
        return [_broken(ranks, early, value, UNKNOWN if is_full else BAD, _FULL if is_full else _TOGETHER[backend])]
    failed = any(rank.error for rank in found)
    if failed or min(rank.silent for rank in found) >= HANGS:
        least = min(rank.stage for rank in found)
        behind = [rank for rank in found if rank.stage == least]
        verdict = BAD if failed or backend == "gloo" else WARNING
        return [_broken(ranks, behind, f"{backend} hangs on {{}}: {_commonest(found)}", verdict, _TOGETHER[backend])]
    value = f"{len(found)} of {len(ranks)} ranks had no result in time"
    return [CheckRow("", ID, WHAT, value, UNKNOWN, "the ranks started late, so that there was not enough time")]


def _commonest(found: Sequence[_Rank]) -> str:
    errors = Counter(rank.error for rank in found if rank.error)
    return errors.most_common(1)[0][0] if errors else "no result"


def _broken(ranks: Sequence[_Rank], found: Sequence[_Rank], words: str, verdict: str, hint: str) -> CheckRow:
    """Return the one row of the node check for the ranks `found`, whose all-reduce failed or hangs: a row of their node
    if all of them are on one node, otherwise a row without a node."""
    labels = sorted({rank.node.label for rank in found})
    value = words.replace("{}", f"rank {found[0].number}" if len(found) == 1 else f"{len(found)} of {len(ranks)} ranks")
    return CheckRow(labels[0] if len(labels) == 1 else "", ID, WHAT, value, verdict, hint)


def _right(nodes: Sequence[CheckedNode], ranks: Sequence[_Rank], backend: str) -> CheckRow:
    longest = max(number_in(rank.report, "seconds") or 0.0 for rank in ranks)
    where = "1 node" if len(nodes) == 1 else f"{len(nodes)} nodes"
    return CheckRow("", ID, WHAT, f"right on {len(ranks)} ranks of {where} by {backend}, in {longest:.2f} s", OK)


def _line(value: Any) -> str:
    return printable_text(" ".join(str(value).split()))[:240]
