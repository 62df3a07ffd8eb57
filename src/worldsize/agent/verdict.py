"""Why a run is being ended, and which of two answers counts."""

from __future__ import annotations

from typing import Any, NamedTuple

from worldsize.agent.failure import precedence
from worldsize.state.records import Failure

FAILURE = "failure"
CANCEL = "cancel"
TIMEOUT = "timeout"
STORAGE = "storage"
DELETED = "deleted"
NODE_LOST = "node-lost"
HEAD_LOST = "head-lost"
CONDUCTOR_LOST = "conductor-lost"
AGENT_LOST = "agent-lost"

CANCELLED_CODE = 143


class Verdict(NamedTuple):
    """`why` is one of the words above; `failure` is None for a cancelled run only."""

    why: str
    failure: Failure | None

    @property
    def code(self) -> int:
        return self.failure.code or 1 if self.failure else CANCELLED_CODE

    def fields(self) -> dict[str, Any]:
        return {"why": self.why, "failure": self.failure._asdict() if self.failure else None}

    @classmethod
    def of(cls, fields: dict[str, Any]) -> Verdict:
        return cls(fields["why"], Failure(**fields["failure"]) if fields["failure"] else None)


def weigh(known: Verdict | None, heard: Verdict) -> Verdict:
    """What counts, once one more is heard.

    Ranks fail when they are cancelled or out of time: nothing that is heard after those two counts. Of two failures
    the earlier one does, and one that only tells of a lost peer gives way to any other.
    """
    if known is None:
        return heard
    if known.failure is None or known.why == TIMEOUT or heard.failure is None:
        return known
    return heard if precedence(heard.failure) < precedence(known.failure) else known
