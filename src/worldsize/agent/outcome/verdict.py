"""Why a run is being ended, and which of two answers counts."""

from __future__ import annotations

import time

from worldsize.common.named_tuple import Any, NamedTuple
from worldsize.state.first_failure import precedence
from worldsize.state.records import Failure, Reason

FAILURE = "failure"
CANCEL = "cancel"
TIMEOUT = "timeout"
HANG = "hang"
STORAGE = "storage"
DELETED = "deleted"
NODE_LOST = "node-lost"
HEAD_LOST = "head-lost"
COMPLETE = "complete"
CONDUCTOR_LOST = "conductor-lost"
AGENT_LOST = "agent-lost"
STARTER_LOST = "starter-lost"

AGENT_CANCELLED_CODE = 143
TIMEOUT_CODE = 124
"""The exit code, as `timeout`'s, of a run that is given up."""


class Verdict(NamedTuple):
    """`why` is one of the words above; `failure` is None where the run is cancelled, or over with its leaders."""

    why: str
    failure: Failure | None

    @property
    def code(self) -> int:
        if self.failure is None:
            return 0 if self.why == COMPLETE else AGENT_CANCELLED_CODE
        return self.failure.code or 1

    def fields(self) -> dict[str, Any]:
        return {"why": self.why, "failure": self.failure._asdict() if self.failure else None}


class PeerVerdict(NamedTuple):
    """A verdict from another node. `final`: the head has decided; otherwise it is to be weighed."""

    verdict: Verdict
    final: bool = False


def failure_verdict(why: str, reason: str, what: str, node_rank: int | None = None, code: int = 1) -> Verdict:
    """Return the verdict on a run that fails now, as a whole or because of a node."""
    return Verdict(why, Failure(reason, what, node_rank, None, code, time.time()))


def starter_lost_verdict(node_rank: int, host: str, has_keeper: bool) -> Verdict:
    """Return the verdict of a node whose keeper was killed, or has told that the agent's starter was."""
    what = (
        "the process that started its agent (a scheduler's) was killed"
        if has_keeper
        else "the process that kept it was killed"
    )
    return lost_node_verdict(STARTER_LOST if has_keeper else AGENT_LOST, node_rank, what, host)


def conductor_lost_verdict() -> Verdict:
    """Return the verdict of an agent whose conductor, or another process that held a local run, is gone."""
    what = "the process that held this run (its conductor) was killed"
    return failure_verdict(CONDUCTOR_LOST, Reason.NODE_FAILURE, what)


def deleted_verdict(root: str) -> Verdict:
    return failure_verdict(DELETED, Reason.STORAGE, f"the run directory was deleted ({root})")


def storage_full_verdict(root: str) -> Verdict:
    return failure_verdict(STORAGE, Reason.STORAGE, f"no space left on the run directory's file system ({root})")


def lost_node_verdict(why: str, node_rank: int, what: str, host: str, code: int = 1) -> Verdict:
    """Return the verdict that a node's agent is gone. `host`: the machine's name, where it is known; else ""."""
    message = "node {}{}: {}".format(node_rank, f" ({host})" if host else "", what)
    return failure_verdict(why, Reason.NODE_FAILURE, message, node_rank, code)


def stronger_verdict(known: Verdict | None, heard: Verdict) -> Verdict:
    """Return the verdict that counts once `heard` has come.

    Ranks also fail because they are cancelled, out of time, given up or not needed any more: nothing that is heard
    after such a verdict counts. Of two failures the earlier one counts, and one that only tells of a lost peer gives
    way to any other.
    """
    if known is None:
        return heard
    if known.failure is None or known.why in (TIMEOUT, HANG) or heard.failure is None:
        return known
    return heard if precedence(heard.failure) < precedence(known.failure) else known
