"""The record of a cause, and the levels of how certain it is."""

from __future__ import annotations

from worldsize.common.named_tuple import NamedTuple

ESTABLISHED = "established"
"""Level of a fact that worldsize, the kernel or a scheduler has observed: an exception that ended the rank, a signal, a
limit."""
SUPPORTED = "supported"
"""Level of a cause that log lines support, and that no known fact contradicts."""
UNKNOWN = "unknown"

PRINTED_BEFORE = 1.0
"""Seconds by which the time of a printed line may be late."""


class Cause(NamedTuple):
    """The cause of a run's failure.

    id        id of a signature, or one of `reasons.py`; "unknown" if the evidence shows no cause
    standing  ESTABLISHED, SUPPORTED or UNKNOWN
    sentence  the cause in words, without a full stop
    ranks     ranks that it concerns, ascending; the first is `rank`
    node      the node of `rank`, or the one that failed
    time      Unix seconds by the head's clock; None if it is not known
    evidence  reasons for this cause, each a sentence without a full stop
    hint      what to do; "" if that is not known
    """

    id: str
    standing: str
    sentence: str
    ranks: tuple[int, ...]
    node: int | None
    time: float | None
    evidence: tuple[str, ...]
    hint: str

    @property
    def rank(self) -> int | None:
        return self.ranks[0] if self.ranks else None
