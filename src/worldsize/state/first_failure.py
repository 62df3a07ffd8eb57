"""The choice of the first of several failures: one rule for the ranks of a node, the tasks of a step, the verdicts that
nodes exchange, and the records of a run that has ended.

Pure: methods are given the time, in seconds of one monotonic clock. Times of failures are Unix times of the machines
where they happened.
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
"""Pattern of the messages of ranks that fail because another rank has failed."""

COLLECTIVE_TIMEOUT = (
    r"Watchdog caught collective operation timeout|Timed out waiting \d+ ?ms for (?:send|recv) operation|"
    r"Application timeout caused pair closure|collective operation timeout: WorkNCCL|wait timeout after \d+ ?ms|"
    r"DEADLINE_EXCEEDED.*[Bb]arrier|Barrier timed out"
)
"""Pattern of the messages of ranks that waited in a collective call until it timed out."""

ABORTED = "(SIGABRT)"
"""The end of the message of a rank that was aborted and left no exception."""

SETTLE = 0.3
"""Seconds that a suspect waits for the failure that may have caused it."""

TIMEOUT_SETTLE = 5.0
"""Seconds that a rank which waited too long gives the others to report the same. They wait for the same limit, each
from its own arrival at the call. A rank that reports nothing did not arrive there."""

_TERM_CODE = 143
_STOP_CODES = (130, _TERM_CODE)
"""Exit codes of a process that was ended by INT or TERM."""


def is_peer_loss(failure: Failure) -> bool:
    """Return whether the message of a rank's failure only reports that the connection to another rank is gone."""
    return re.search(PEER_LOSS, failure.message) is not None


def may_follow(failure: Failure) -> bool:
    """Return whether another rank's failure, which is not known yet, may have caused this `failure`: it reports a lost
    peer or an abort without a reason. Threads of gloo and NCCL abort a process whose peer is gone, while the peer's
    interpreter is still ending."""
    return is_peer_loss(failure) or failure.message.endswith(ABORTED)


def has_timed_out(failure: Failure) -> bool:
    """Return whether the message of a rank's failure reports that the rank waited in a collective call for another rank
    until the call timed out."""
    return re.search(COLLECTIVE_TIMEOUT, failure.message) is not None


def precedence(failure: Failure) -> tuple[bool, float]:
    """Return the key by which failures of a run are sorted to find the first. A failure of a rank that lost its peer
    comes after all other failures, independently of the clocks; otherwise the earlier failure comes first."""
    return is_peer_loss(failure), failure.time


def first_failure(failures: Iterable[Failure]) -> Failure | None:
    """Return the failure that comes first by `precedence`, which is the cause of the others; None if `failures` is
    empty."""
    return min(failures, key=precedence, default=None)


class FirstFailure:
    """The failure for which one node, or one step, is ended. `decide_at` is the time at which the pending suspect
    becomes that failure; None without a suspect.

    Three kinds of failure are suspects at first. One that reports a lost peer, or an abort without a reason, is
    replaced by the failure of the peer itself. One that waited in a collective call until that timed out gives the
    others time to report the same, unless one of them fails in another way. One by TERM or INT may come from a
    scheduler's cancel, which signals all processes of a step in any order. While that is undecided, no other failure
    ends the run either, since a rank may answer the same signal with any code. The same holds for every failure once a
    cancel of the run was requested.
    """

    def __init__(self) -> None:
        self.decide_at: float | None = None
        self._suspect: Failure | None = None
        self._since: float | None = None
        self._patience = SETTLE
        self._may_be_cancel = False

    def consider(self, failures: Iterable[Failure], now: float, cancel_requested: bool = False) -> Failure | None:
        """Add failures of ranks that have just become known, at the time `now`. `cancel_requested` states whether the
        run's cancellation was requested by then. Return the failure for which the run is ended; None if there are none,
        and while the decision must wait until `decide_at`."""
        found = list(failures)
        if not found:
            return None
        first = min(found if self._suspect is None else [self._suspect, *found], key=precedence)
        signalled = any(each.code in _STOP_CODES for each in found)
        self._may_be_cancel = self._may_be_cancel or cancel_requested or signalled
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
        """Return the suspect, a failure that may have been caused by another one, if it has waited until `decide_at`,
        else None."""
        return self._suspect if self.decide_at is not None and now >= self.decide_at else None

    def drop(self) -> Failure | None:
        """Forget the failure that is the pending suspect, since the end of the run has begun. Return that failure; None
        if there is none."""
        suspect, self._suspect, self.decide_at = self._suspect, None, None
        return suspect
