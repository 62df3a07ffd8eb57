"""The answer of a node in the stage `bandwidth`, parsed as untrusted data, and the rows of the findings about nodes.

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
    """The answer of a node in the stage `bandwidth` of the node check.

    failure   the reason why the other fields are missing, in one line
    nccl      the summary of NCCL's lines on this node; None if it was not measured, or printed nothing
    size      the bytes of each all-reduce
    times     the number of all-reduces, including those before the measurement
    seconds   the average time of one; 0 if it was not measured
    correct   whether each rank had the right result; None if no rank reported it
    sent      the bytes that the fabric's ports sent during the measurement; 0 if they do not count
    origins   the origins of the variables
    speeds    the speeds of the interfaces of sockets in Gb/s
    masters   the interface that a port's own interface is a part of
    mpi       the result of `mpi_log` for Open MPI, with `settings` of the node and their `origins`
    mpi_failure  the reason why Open MPI printed nothing
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
    """The judgement on one node's transport: the value, verdict and hint of a row of the node check."""

    value: str
    verdict: str
    hint: str = ""


def answer_of(node: CheckedNode) -> NodeAnswer:
    """Parse the node's answer in the stage `bandwidth` and return it as a NodeAnswer. Without an answer, return a
    NodeAnswer with the failure "no answer in time". Fields of the wrong type are omitted."""
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
    """Return the node check's rows `id` for pairs (node, Finding): a row for each node whose verdict is not OK, and one
    row, with the number of nodes, for all other nodes that have the same value. `what` is the subject of the rows."""
    rows = [CheckRow(node.label, id, what, *finding) for node, finding in found if finding.verdict != OK]
    good = [finding.value for _, finding in found if finding.verdict == OK]
    for value in dict.fromkeys(good):
        nodes = "1 node" if good.count(value) == 1 else f"{good.count(value)} nodes"
        rows.append(CheckRow("", id, what, f"{value}, {nodes}", OK))
    return rows


def origin_words(name: str, origins: Mapping[str, Any]) -> str:
    """Return the words that follow a variable and its value in a sentence: " comes from ORIGIN" if `origins` contains
    the origin of the variable `name`, otherwise " is set"."""
    origin = printable_text(str(origins.get(name, "")))[:100]
    return f" comes from {origin}" if origin else " is set"


def _line(value: Any) -> str:
    return printable_text(" ".join(str(value).split()))[:300] if value else ""
