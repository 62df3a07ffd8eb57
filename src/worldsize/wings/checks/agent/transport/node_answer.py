"""What a node answered in the stage `bandwidth`, read without trust, and the rows of what is found of nodes.

Standard library only: travels inside agent.pyz (Python >= 3.8).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from worldsize.common.atomic_files import printable_text
from worldsize.common.named_tuple import Any, NamedTuple
from worldsize.state.check_rows import OK, CheckRow
from worldsize.wings.checks.agent.cluster import CheckedNode
from worldsize.wings.checks.agent.judgement.answers import number_in
from worldsize.wings.checks.agent.judgement.groups import mapping_of
from worldsize.wings.checks.agent.transport.nccl_summary import NcclSummary, summary_of

STAGE_NAME = "bandwidth"


class NodeAnswer(NamedTuple):
    """One node's answer.

    failure   why there is nothing else, in one line
    nccl      what NCCL said on this node; None where it was not asked, or said nothing
    size      bytes of each all-reduce
    times     how many there were, those before the measurement too
    seconds   of one, on average; 0 where it was not measured
    correct   whether each rank had the right result; None where none told
    sent      bytes that the fabric's ports sent meanwhile; 0 where they do not count
    origins   where variables come from
    speeds    Gb/s of the interfaces of sockets
    masters   the interface that a port's own interface is a part of
    mpi       what Open MPI said, as `mpi_log` writes it, with `settings` of the node and their `origins`
    mpi_failure  why it said nothing
    """

    failure: str = ""
    nccl: NcclSummary | None = None
    size: int = 0
    times: int = 0
    seconds: float = 0.0
    correct: bool | None = None
    sent: float = 0.0
    origins: Mapping[str, Any] = {}
    speeds: Mapping[str, Any] = {}
    masters: Mapping[str, Any] = {}
    mpi: Mapping[str, Any] = {}
    mpi_failure: str = ""


class Finding(NamedTuple):
    """What is said of one node."""

    value: str
    verdict: str
    hint: str = ""


def answer_of(node: CheckedNode) -> NodeAnswer:
    """What this node said; a failure where it said nothing."""
    value = node.answers.get(STAGE_NAME)
    if not isinstance(value, Mapping):
        return NodeAnswer(failure="no answer in time", mpi_failure="no answer in time")
    return NodeAnswer(
        failure=_line(value.get("error") or value.get("failure")),
        nccl=summary_of(value.get("nccl")),
        size=int(number_in(value, "size") or 0),
        times=int(number_in(value, "times") or 0),
        seconds=number_in(value, "seconds") or 0.0,
        correct=value["correct"] if isinstance(value.get("correct"), bool) else None,
        sent=number_in(value, "sent") or 0.0,
        origins=mapping_of(value.get("origins")),
        speeds=mapping_of(value.get("speeds")),
        masters=mapping_of(value.get("masters")),
        mpi=mapping_of(value.get("mpi")),
        mpi_failure=_line(value.get("mpi_failure") or value.get("error")),
    )


def rows_of_findings(found: Sequence[tuple[CheckedNode, Finding]], id: str, what: str) -> list[CheckRow]:
    """One row for each node where something is not right or not known, and one for all others that are alike."""
    rows = [CheckRow(node.label, id, what, *finding) for node, finding in found if finding.verdict != OK]
    good = [finding.value for _, finding in found if finding.verdict == OK]
    for value in dict.fromkeys(good):
        nodes = "1 node" if good.count(value) == 1 else f"{good.count(value)} nodes"
        rows.append(CheckRow("", id, what, f"{value}, {nodes}", OK))
    return rows


def origin_words(name: str, origins: Mapping[str, Any]) -> str:
    """What follows a variable and its value: where it comes from."""
    origin = printable_text(str(origins.get(name, "")))[:100]
    return f" comes from {origin}" if origin else " is set"


def _line(value: Any) -> str:
    return printable_text(" ".join(str(value).split()))[:300] if value else ""
