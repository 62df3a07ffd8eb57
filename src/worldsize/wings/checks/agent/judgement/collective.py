"""What the ranks of the collective's check have reported.

Pure. Standard library only: travels inside agent.pyz (Python >= 3.8).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence

from worldsize.common.named_tuple import Any, NamedTuple
from worldsize.state.check_rows import BAD, OK, UNKNOWN, CheckRow
from worldsize.wings.checks.agent.cluster import CheckedNode
from worldsize.wings.checks.agent.judgement.answers import number_in

ID = "collective.result"
WHAT = "an all-reduce over all ranks"

STAGES = ("", "started", "imported", "connected", "gathered", "joined", "done")

EARLY = 5.0
"""Seconds of the collective: what fails before has a cause of its own, and what fails later waited for another rank."""

HANGS = 15.0
"""Seconds without a word from any rank, all of which were there: on a machine where everything takes ten times as long,
joining takes three."""

_WRONG = "training would go wrong without a word: leave the node out (--exclude-bad), and tell the administrators"
_IMPORT = "the rows of the environment say more: is it the one that the job uses, and installed on this node?"
_LATE = "the environment loads slowly here; nothing is known of the collective"
_PORT = "ranks cannot join there: open the ports between the nodes, or see network.port"
_TOGETHER = {
    "gloo": "see network.names and network.interface; GLOO_SOCKET_IFNAME says which interface gloo takes",
    "nccl": "NCCL_DEBUG=INFO says more; NCCL_SOCKET_IFNAME says which interface NCCL takes",
}


class _Rank(NamedTuple):
    """A rank's report, and on which node it ran."""

    node: CheckedNode
    number: int
    stage: int
    report: Mapping[str, Any]

    @property
    def error(self) -> str:
        return " ".join(str(self.report.get("error", "")).split())[:240]


def collective_rows(nodes: Sequence[CheckedNode], backend: str) -> list[CheckRow]:
    """The row of all, or rows of the nodes to which the first of its steps that went wrong is due."""
    if not nodes:
        return []
    ranks = [rank for node in nodes for rank in _ranks(node)]
    steps = (_wrong(ranks), _silent(nodes), _not_imported(ranks), _not_connected(ranks), _not_together(ranks, backend))
    return next((rows for rows in steps if rows), None) or [_right(nodes, ranks, backend)]


def _ranks(node: CheckedNode) -> list[_Rank]:
    answer = node.answers.get("collective")
    found = answer.get("ranks") if isinstance(answer, Mapping) else None
    reports = found.items() if isinstance(found, Mapping) else ()
    return [_rank(node, str(number), report) for number, report in reports if isinstance(report, Mapping)]


def _rank(node: CheckedNode, number: str, report: Mapping[str, Any]) -> _Rank:
    stage = report.get("stage", "")
    return _Rank(node, int(number) if number.isdigit() else -1, STAGES.index(stage) if stage in STAGES else 0, report)


def _rows(ranks: Sequence[_Rank], verdict: str, hint: str, words: Mapping[int, str]) -> list[CheckRow]:
    """A row of each node that has some of these ranks, with the words of the first."""
    first: dict[str, CheckRow] = {}
    for rank in ranks:
        row = CheckRow(rank.node.label, ID, WHAT, f"rank {rank.number} {words[rank.number]}", verdict, hint)
        first.setdefault(rank.node.label, row)
    return list(first.values())


def _wrong(ranks: Sequence[_Rank]) -> list[CheckRow]:
    found = [rank for rank in ranks if "wrong" in rank.report]
    return _rows(
        found, BAD, _WRONG, {rank.number: f"got a wrong result: {rank.report['wrong']!s:.200}" for rank in found}
    )


def _silent(nodes: Sequence[CheckedNode]) -> list[CheckRow]:
    return [
        CheckRow(node.label, ID, WHAT, _why_silent(node), UNKNOWN, "no rank was started there, so none could be joined")
        for node in nodes
        if not _ranks(node)
    ]


def _why_silent(node: CheckedNode) -> str:
    answer = node.answers.get("collective")
    error = answer.get("error") if isinstance(answer, Mapping) else None
    return " ".join(str(error or "no answer in time").split())[:200]


def _not_imported(ranks: Sequence[_Rank]) -> list[CheckRow]:
    found = [rank for rank in ranks if rank.stage < STAGES.index("imported")]
    failed = [rank for rank in found if rank.error]
    if failed:
        return _rows(failed, UNKNOWN, _IMPORT, {rank.number: f"cannot import torch: {rank.error}" for rank in failed})
    return _rows(found, UNKNOWN, _LATE, {rank.number: "was still importing torch" for rank in found})


def _not_connected(ranks: Sequence[_Rank]) -> list[CheckRow]:
    """Those that did not reach rank 0: a row of the head where nobody did."""
    found = [rank for rank in ranks if rank.stage < STAGES.index("connected")]
    head = next((rank for rank in ranks if rank.number == 0), None)
    if not found:
        return []
    if head is None or head in found or not all("port" in rank.report for rank in found):
        return _rows(
            found, UNKNOWN, _PORT, {rank.number: rank.error or "was told of no port of rank 0" for rank in found}
        )
    others = [rank for rank in ranks if rank.node is not head.node]
    if len(found) == len(others) > 1:
        value = f"no other node reaches rank 0 at port {head.report.get('port')}: {found[0].error}"
        return [CheckRow(head.node.label, ID, WHAT, value, BAD, _PORT)]
    port = head.report.get("port")
    return _rows(
        found, BAD, _PORT, {rank.number: f"does not reach rank 0 at port {port}: {rank.error}" for rank in found}
    )


def _not_together(ranks: Sequence[_Rank], backend: str) -> list[CheckRow]:
    """All ranks were there, and the collective failed, or did not end."""
    found = [rank for rank in ranks if rank.stage < STAGES.index("done")]
    if not found:
        return []
    early = [rank for rank in found if rank.error and (number_in(rank.report, "lasted") or 0.0) < EARLY]
    if early:
        return [_broken(ranks, early, f"{backend} fails on {{}}: {_commonest(early)}", backend)]
    if any(rank.error for rank in found) or min(number_in(rank.report, "silent") or 0.0 for rank in found) >= HANGS:
        least = min(rank.stage for rank in found)
        behind = [rank for rank in found if rank.stage == least]
        return [_broken(ranks, behind, f"{backend} hangs on {{}}: {_commonest(found)}", backend)]
    value = f"{len(found)} of {len(ranks)} ranks had no result in time"
    return [CheckRow("", ID, WHAT, value, UNKNOWN, "the ranks started late, so that there was not enough time")]


def _commonest(found: Sequence[_Rank]) -> str:
    errors = Counter(rank.error for rank in found if rank.error)
    return errors.most_common(1)[0][0] if errors else "no result"


def _broken(ranks: Sequence[_Rank], found: Sequence[_Rank], words: str, backend: str) -> CheckRow:
    """The row of the only node that has these ranks, or of all."""
    labels = sorted({rank.node.label for rank in found})
    value = words.format(f"rank {found[0].number}" if len(found) == 1 else f"{len(found)} of {len(ranks)} ranks")
    return CheckRow(labels[0] if len(labels) == 1 else "", ID, WHAT, value, BAD, _TOGETHER.get(backend, ""))


def _right(nodes: Sequence[CheckedNode], ranks: Sequence[_Rank], backend: str) -> CheckRow:
    longest = max(number_in(rank.report, "seconds") or 0.0 for rank in ranks)
    where = "1 node" if len(nodes) == 1 else f"{len(nodes)} nodes"
    return CheckRow("", ID, WHAT, f"right on {len(ranks)} ranks of {where} by {backend}, in {longest:.2f} s", OK)
