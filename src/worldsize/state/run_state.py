"""Computation of a run's state from facts: one pure, monotone fold.

Exit records take precedence over the scheduler for success and failure. The scheduler takes precedence for kills. A run
that is in neither place is LOST after a grace period, never a success.

Standard library only: travels inside agent.pyz (Python >= 3.8).
"""

from __future__ import annotations

from worldsize.common.named_tuple import NamedTuple
from worldsize.state.first_failure import precedence
from worldsize.state.records import ExitRecord, Failure, Observation, Reason, RunState, Status

RUN_CANCELLED_CODE = 130
CANCELLED_MESSAGE = "cancelled"
LOST_CODE = 1
_KILLS = frozenset((Reason.OUT_OF_MEMORY, Reason.TIME_LIMIT, Reason.PREEMPTED, Reason.NODE_FAILURE))
_SIGNALLED = frozenset((Reason.SIGNAL, Reason.NODE_FAILURE))
_TERM_CODE = 128 + 15
_KILL_CODE = 128 + 9
_LOST_NODE = frozenset(("head-lost", "node-lost"))
_DERIVED = _LOST_NODE | {"conductor-lost"}


class AttemptFacts(NamedTuple):
    """All known facts about one attempt.

    nodes        how many exit records are expected
    prepared     the run directory is complete
    submitted    the run has been submitted to the compute
    rejected     why the compute rejected it
    cancelled    its cancellation was requested
    launched     the head's agent has started its ranks
    exits        the exit records so far
    observation  the report of the compute
    started      when the head's agent had started its ranks, if it has recorded that
    settled      the compute has reported "ended" or "absent" for longer than the grace period: no record is expected
    """

    nodes: int
    prepared: bool
    submitted: bool
    rejected: Failure | None
    cancelled: bool
    launched: bool
    exits: tuple[ExitRecord, ...]
    observation: Observation
    settled: bool
    started: float | None = None


def fold(facts: AttemptFacts) -> Status:
    """Return the status of a run, computed from all known facts about its attempt. Additional facts never revert a
    final state."""
    if facts.rejected is not None:
        return _failed_status(facts.rejected, facts)
    facts = _without_lost(facts)
    if facts.nodes and len(facts.exits) == facts.nodes:
        return _ended_status(facts)
    if facts.observation.phase in ("ended", "absent") and facts.submitted and facts.settled:
        return _absent_status(facts)
    if not facts.submitted:
        if facts.settled and facts.cancelled:
            return _cancelled_status(facts)
        if facts.settled:
            step = "submitted" if facts.prepared else "prepared"
            return _final_status(facts, RunState.LOST, None, LOST_CODE, "it was interrupted while it was being " + step)
        return Status(RunState.PREPARING if facts.prepared else RunState.CREATED)
    return _unfinished_status(facts)


def _without_lost(facts: AttemptFacts) -> AttemptFacts:
    """Return the facts about an attempt without the nodes that were lost, if an exit record shows that the run
    continued without them."""
    lost = {node_rank for record in facts.exits for node_rank in record.without}
    if not lost:
        return facts
    exits = tuple(record for record in facts.exits if record.node_rank not in lost)
    return facts._replace(nodes=facts.nodes - len(lost), exits=exits)


def _ended_status(facts: AttemptFacts) -> Status:
    """Return the status of an attempt of which every node has left a record.

    It is STOPPING while only the scheduler may know the cause, and its report may still come. A signal that worldsize
    did not send may be the scheduler's, and the scheduler may start the run again after a lost node. If agents were
    stopped by a cancel that worldsize did not request, the report may come at any time while the scheduler cleans up
    their nodes.
    """
    failure = agreed_failure(facts.exits)
    stopped = any(record.stop == "cancel" for record in facts.exits)
    lost = any(record.stop in _LOST_NODE for record in facts.exits)
    unexplained = failure.reason == Reason.SIGNAL or lost if failure else stopped and not facts.cancelled
    awaited = not facts.settled or (failure is None and facts.observation.ending)
    if unexplained and facts.observation.phase not in ("ended", "absent") and awaited:
        return _stopping_status(facts)
    if failure is not None:
        return _cancelled_status(facts) if _is_from_cancel(failure, facts) else _failed_status(failure, facts)
    if stopped:
        if (facts.observation.reason in _KILLS or _is_launcher_killed(facts)) and not facts.cancelled:
            return _killed_status(facts)
        return _cancelled_status(facts)
    missed = sorted(node_rank for record in facts.exits for node_rank in record.without)
    what = f"continued without node {', '.join(map(str, missed))}" if missed else ""
    warnings = tuple(warning for record in facts.exits for warning in record.warnings)
    return _final_status(facts, RunState.SUCCEEDED, None, 0, what)._replace(warnings=warnings)


def _is_launcher_killed(facts: AttemptFacts) -> bool:
    """Return whether the compute reports that the native job's own process, which started the agents, was killed by
    signal 9, after which the scheduler ended the agents."""
    said = facts.observation
    return said.phase == "ended" and said.reason == Reason.SIGNAL and said.code == _KILL_CODE


def _cancelled_status(facts: AttemptFacts) -> Status:
    """Return the final status CANCELLED of a run that was cancelled through worldsize, or through the scheduler, whose
    message may name the user."""
    elsewhere = not facts.cancelled and facts.observation.reason == Reason.CANCELLED_BY_USER
    what = (elsewhere and facts.observation.message) or CANCELLED_MESSAGE
    return _final_status(facts, RunState.CANCELLED, Reason.CANCELLED_BY_USER, RUN_CANCELLED_CODE, what)


def _is_from_cancel(failure: Failure, facts: AttemptFacts) -> bool:
    """Return whether the `failure` of a rank, agent or setup line is an effect of a cancel. A cancel reaches ranks,
    agents and lines of the setup as a signal, in any order, also where srun forwards a cancel that worldsize has
    requested."""
    if failure.reason == Reason.ENVIRONMENT:
        return facts.cancelled and failure.code == _TERM_CODE
    if failure.reason not in _SIGNALLED:
        return False
    asked_of_us = facts.cancelled and (failure.reason == Reason.NODE_FAILURE or failure.code == _TERM_CODE)
    return asked_of_us or facts.observation.reason == Reason.CANCELLED_BY_USER


def _absent_status(facts: AttemptFacts) -> Status:
    """Return the status of a run whose native job no longer exists, and of which not every node has left a record."""
    if facts.observation.reason in _KILLS:
        return _killed_status(facts)
    failure = agreed_failure(facts.exits)
    if facts.observation.reason == Reason.CANCELLED_BY_USER and (failure is None or _is_from_cancel(failure, facts)):
        return _cancelled_status(facts)
    if failure is not None:
        return _failed_status(failure, facts)
    if facts.cancelled:
        return _cancelled_status(facts)
    if facts.observation.phase == "ended" and facts.observation.code:
        what = facts.observation.message or f"the native job ended with code {facts.observation.code}"
        return _failed_status(
            Failure(facts.observation.reason or Reason.NODE_FAILURE, what, code=facts.observation.code), facts
        )
    missing = facts.nodes - len(facts.exits)
    what = (
        facts.observation.message
        or f"the native job no longer exists, and {missing} of {facts.nodes} nodes left no exit record"
    )
    return _final_status(facts, RunState.LOST, None, LOST_CODE, what)


def _unfinished_status(facts: AttemptFacts) -> Status:
    if facts.observation.phase == "queued":
        return Status(RunState.QUEUED, facts.observation.reason, message=facts.observation.message)
    stopping = facts.cancelled or any(record.stop for record in facts.exits)
    if stopping:
        return _stopping_status(facts)
    state = RunState.RUNNING if facts.launched else RunState.STARTING
    return Status(state, message=facts.observation.message, started=_start_time(facts))


def _stopping_status(facts: AttemptFacts) -> Status:
    failure = agreed_failure(facts.exits)
    what = failure.message if failure else facts.observation.message
    return Status(RunState.STOPPING, message=what, started=_start_time(facts))


def agreed_failure(exits: tuple[ExitRecord, ...]) -> Failure | None:
    """Return the first failure in the exit records of the nodes; None if there is none. A failure that a node only
    inferred from the silence of another process comes last. It does not count if a node was cancelled, since that
    explains the silence."""
    found = [(record.stop in _DERIVED, failure) for record in exits for failure in (_failure_of(record),) if failure]
    if any(record.stop == "cancel" for record in exits):
        found = [each for each in found if not each[0]]
    return min(found, key=lambda each: (each[0], precedence(each[1])))[1] if found else None


def _failure_of(record: ExitRecord) -> Failure | None:
    """Return the failure that a node's exit record contains; None if it contains none. A nonzero code without a failure
    counts as one, unless the node was cancelled."""
    if record.failure is not None or record.code == 0 or record.stop == "cancel":
        return record.failure
    what = f"the agent of node {record.node_rank} ended with code {record.code} and gave no reason"
    return Failure(Reason.EXIT_CODE, what, record.node_rank, None, record.code, record.ended)


def _failed_status(failure: Failure, facts: AttemptFacts) -> Status:
    reason, message = failure.reason, failure.message
    if facts.observation.reason in _KILLS and reason == Reason.SIGNAL:
        reason = facts.observation.reason or reason
        message = facts.observation.message or message
    return _final_status(facts, RunState.FAILED, reason, failure.code or 1, message, failure)


def _killed_status(facts: AttemptFacts) -> Status:
    reason = facts.observation.reason or Reason.SIGNAL
    what = facts.observation.message or f"ended by the scheduler: {reason}"
    failure = agreed_failure(facts.exits)
    return _final_status(facts, RunState.FAILED, reason, facts.observation.code or 1, what, failure)


def _final_status(
    facts: AttemptFacts, state: str, reason: str | None, code: int, message: str, failure: Failure | None = None
) -> Status:
    ended = max((record.ended for record in facts.exits), default=None)
    code = code if 0 <= code < 256 else LOST_CODE  # the system keeps 8 bits of an exit code: 256 would be 0
    return Status(state, reason, code, message, failure, _start_time(facts), ended)


def _start_time(facts: AttemptFacts) -> float | None:
    return min((record.started for record in facts.exits), default=facts.started)
