"""Which of several failures was first: one rule for the ranks of a node, the tasks of a step, the verdicts that nodes
exchange, and the records of a run that has ended.

Pure: methods take the time, in seconds of one monotonic clock. Times of failures are Unix times of the machines where
they happened.
"""

from __future__ import annotations

import re
from collections.abc import Iterable

from worldsize.state.records import Failure

# Compiled when first used: most runs never need it, and every run would wait for it.
PEER_LOSS = (
    r"closed by peer|reset by peer|Broken pipe|remote process exited|Socket closed|recvValue failed|"
    r"Connection was likely closed|ncclRemoteError|failed to recv, got 0 bytes|Connection refused|"
    r"ChildFailedError|RendezvousConnectionError|Timed out waiting for clients"
)
"""Messages of ranks that fail because another one did."""

COLLECTIVE_TIMEOUT = (
    r"Watchdog caught collective operation timeout|Timed out waiting \d+ ?ms for (?:send|recv) operation|"
    r"Application timeout caused pair closure|collective operation timeout: WorkNCCL|wait timeout after \d+ ?ms|"
    r"DEADLINE_EXCEEDED.*[Bb]arrier|Barrier timed out"
)
"""Messages of ranks that waited in a collective call until that timed out."""

ABORTED = "(SIGABRT)"
"""How the message of a rank ends that was aborted and left no exception."""

SETTLE = 0.3
"""Seconds that a suspect waits for the failure that may have caused it."""

TIMEOUT_SETTLE = 5.0
"""Seconds that a rank which waited too long gives the others to say the same: they wait out the same limit, each from
when it came to the call. Who says nothing did not come to it."""

_TERM_CODE = 143
_STOP_CODES = (130, _TERM_CODE)
"""Exit codes of a process that INT or TERM has ended."""


def is_peer_loss(failure: Failure) -> bool:
    """Return whether its message only reports that another rank is gone."""
    return re.search(PEER_LOSS, failure.message) is not None


def may_follow(failure: Failure) -> bool:
    """Return whether another failure may have caused it, which is not known yet: threads of gloo and NCCL abort a
    process whose peer is gone, while the peer's interpreter is still ending."""
    return is_peer_loss(failure) or failure.message.endswith(ABORTED)


def has_timed_out(failure: Failure) -> bool:
    """Return whether it waited in a collective call for another rank until that timed out."""
    return re.search(COLLECTIVE_TIMEOUT, failure.message) is not None


def precedence(failure: Failure) -> tuple[bool, float]:
    """Sort key: a rank that lost its peer comes after the peer, whatever the clocks say; else the earlier one first."""
    return is_peer_loss(failure), failure.time


def first_failure(failures: Iterable[Failure]) -> Failure | None:
    """Return the first of them by `precedence`; None if there are none."""
    return min(failures, key=precedence, default=None)


class FirstFailure:
    """The failure that one node, or one step, is ended for. `decide_at`: when the pending suspect counts; None without
    one.

    Three kinds of failure are suspects at first. One that reports a lost peer, or an abort without a reason, gives way
    to the peer's own. One that waited in a collective call until that timed out leaves the others the time to tell of
    the same, as long as none fails in another way. One by TERM or INT may be a cancel by a scheduler, which signals all
    processes of a step in any order: while that is open, no other failure ends the run either, since a rank may answer
    the same signal with any code.
    """

    def __init__(self) -> None:
        self.decide_at: float | None = None
        self._suspect: Failure | None = None
        self._since: float | None = None
        self._patience = SETTLE
        self._may_be_cancel = False

    def consider(self, failures: Iterable[Failure], now: float) -> Failure | None:
        """Add failures that have just become known. Returns the one to end for; None while it must wait until
        `decide_at`, and without any."""
        found = list(failures)
        if not found:
            return None
        first = min(found if self._suspect is None else [self._suspect, *found], key=precedence)
        self._may_be_cancel = self._may_be_cancel or any(each.code in _STOP_CODES for each in found)
        others_may_tell = has_timed_out(first) and all(may_follow(each) or has_timed_out(each) for each in found)
        if not self._may_be_cancel and not may_follow(first) and not others_may_tell:
            return first
        if any(map(has_timed_out, found)):
            self._patience = TIMEOUT_SETTLE
        self._suspect = first
        self._since = now if self._since is None else self._since
        self.decide_at = self._since + self._patience
        return None

    def overdue(self, now: float) -> Failure | None:
        """Return the suspect, once it has waited long enough; else None."""
        return self._suspect if self.decide_at is not None and now >= self.decide_at else None

    def drop(self) -> Failure | None:
        """Forget the suspect, since the end has begun. Returns it; None without one."""
        suspect, self._suspect, self.decide_at = self._suspect, None, None
        return suspect
