"""A cause, as it is told, and how sure it is."""

from __future__ import annotations

from worldsize.common.named_tuple import NamedTuple

ESTABLISHED = "established"
"""A fact that worldsize, the kernel or a scheduler has seen: an exception that ended the rank, a signal, a limit."""
SUPPORTED = "supported"
"""Lines speak for it, and nothing that is known against it."""
UNKNOWN = "unknown"

PRINTED_BEFORE = 1.0
"""Seconds by which the time of a printed line may be late."""


class Cause(NamedTuple):
    """Why a run failed.

    id        a signature's, or one of `reasons.py`; "unknown" where nothing says it
    standing  ESTABLISHED, SUPPORTED or UNKNOWN
    sentence  the cause in words, without a full stop
    ranks     whose it is, ascending; the first is `rank`
    node      the node of `rank`, or the one that failed
    time      Unix seconds by the head's clock, None where nobody knows
    evidence  why it is said, each a sentence without a full stop
    hint      what to do; "" where nobody knows
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
