"""What a node answered in the stage `bandwidth`, read without trust: the pieces that are what they should be.

Standard library only: travels inside agent.pyz (Python >= 3.8).
"""

from __future__ import annotations

from collections.abc import Mapping

from worldsize.common.named_tuple import Any, NamedTuple
from worldsize.wings.checks.agent.cluster import CheckedNode
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
    sent      bytes that the fabric's ports sent meanwhile; None where they do not count
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
    sent: int | None = None
    origins: Mapping[str, Any] = {}
    speeds: Mapping[str, Any] = {}
    masters: Mapping[str, Any] = {}
    mpi: Mapping[str, Any] | None = None
    mpi_failure: str = ""


def answer_of(node: CheckedNode, late: str = "no answer in time") -> NodeAnswer:
    """What this node said; a failure where it said nothing."""
    value = node.answers.get(STAGE_NAME)
    if not isinstance(value, Mapping):
        return NodeAnswer(failure=late, mpi_failure=late)
    error = value.get("error") or value.get("failure")
    return NodeAnswer(
        failure=_line(error),
        nccl=summary_of(value.get("nccl")),
        size=_integer(value.get("size")),
        times=_integer(value.get("times")),
        seconds=_seconds(value.get("seconds")),
        correct=value["correct"] if isinstance(value.get("correct"), bool) else None,
        sent=value["sent"] if type(value.get("sent")) is int else None,
        origins=_mapping(value.get("origins")),
        speeds=_mapping(value.get("speeds")),
        masters=_mapping(value.get("masters")),
        mpi=_mapping(value["mpi"]) if value.get("mpi") else None,
        mpi_failure=_line(value.get("mpi_failure") or value.get("error")),
    )


def _line(value: Any) -> str:
    return " ".join(str(value).split())[:300] if value else ""


def _integer(value: Any) -> int:
    return value if type(value) is int and value > 0 else 0


def _seconds(value: Any) -> float:
    return float(value) if type(value) in (int, float) and 0 < value < 1e6 else 0.0


def _mapping(value: Any) -> Mapping[str, Any]:
    return value if isinstance(value, Mapping) else {}
