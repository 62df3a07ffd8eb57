"""The reason for which a run is ended, and the rule for which of two reasons counts."""

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
"""The exit code of a run that is ended by a time limit or because it hangs. It is the exit code of the program
`timeout`."""


class Verdict(NamedTuple):
    """The reason for which a run is ended. `why` is one of the words above. `failure` is None if the run is cancelled,
    or if it is over because its leaders have ended."""

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
    """A verdict from another node. `final` means that the head has decided; otherwise the verdict is compared with the
    known one."""

    verdict: Verdict
    final: bool = False


def failure_verdict(why: str, reason: str, what: str, node_rank: int | None = None, code: int = 1) -> Verdict:
    """Return the verdict that ends a run which fails now, as a whole or because of node `node_rank`. `why` is the kind
    of end, `reason` and `what` are the failure's reason and message, and `code` is the exit code."""
    return Verdict(why, Failure(reason, what, node_rank, None, code, time.time()))


def starter_lost_verdict(node_rank: int, host: str, has_keeper: bool) -> Verdict:
    """Return the verdict with which a node ends the run because the process above its agent is gone: the process that
    started the agent, as its keeper has reported (`has_keeper`), or the keeper itself."""
    what = (
        "the process that started its agent (a scheduler's) was killed"
        if has_keeper
        else "the process that kept it was killed"
    )
    return lost_node_verdict(STARTER_LOST if has_keeper else AGENT_LOST, node_rank, what, host)


def conductor_lost_verdict() -> Verdict:
    """Return the verdict with which an agent ends the run because the process that held the local run, its conductor,
    was killed."""
    what = "the process that held this run (its conductor) was killed"
    return failure_verdict(CONDUCTOR_LOST, Reason.NODE_FAILURE, what)


def deleted_verdict(root: str) -> Verdict:
    return failure_verdict(DELETED, Reason.STORAGE, f"the run directory was deleted ({root})")


def storage_full_verdict(root: str) -> Verdict:
    return failure_verdict(STORAGE, Reason.STORAGE, f"no space left on the run directory's file system ({root})")


def lost_node_verdict(why: str, node_rank: int, what: str, host: str, code: int = 1) -> Verdict:
    """Return the verdict that ends a run because a node's agent is gone. `what` states how. `host` is the machine's
    name; "" if it is not known."""
    message = "node {}{}: {}".format(node_rank, f" ({host})" if host else "", what)
    return failure_verdict(why, Reason.NODE_FAILURE, message, node_rank, code)


def stronger_verdict(known: Verdict | None, heard: Verdict) -> Verdict:
    """Return the verdict on a run that takes precedence: `known` (None if there is none yet) or the new one, `heard`.

    A rank also fails because it is cancelled, out of time, given up or no longer needed. Therefore a verdict that
    arrives after such a verdict is ignored. Of two failures the earlier one takes precedence. A failure that only
    reports a lost peer yields to any other.
    """
    if known is None:
        return heard
    if known.failure is None or known.why in (TIMEOUT, HANG) or heard.failure is None:
        return known
    return heard if precedence(heard.failure) < precedence(known.failure) else known
