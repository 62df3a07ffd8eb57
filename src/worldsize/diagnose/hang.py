"""Causes of runs that hung, from the hang that the watchdog found. The hang is the cause of a run that still hangs, of
a run that the watchdog has ended, and of timeouts of ranks that waited for the named ones. If a person or a limit has
ended the run, that is the cause, and the hang is mentioned in addition.

A hang after which the run continued is no cause.
"""

from __future__ import annotations

from collections.abc import Sequence

from worldsize.diagnose.cause_record import PRINTED_BEFORE, UNKNOWN, Cause
from worldsize.diagnose.collectives import calls_given_up
from worldsize.diagnose.evidence import Observation, RunEvidence
from worldsize.diagnose.reasons import HANG, HANG_HINTS
from worldsize.diagnose.signatures.signature import Role
from worldsize.diagnose.waiting import node_of
from worldsize.state.collective_calls import odd_ranks
from worldsize.state.hang import SILENT, WITNESSES, Hang
from worldsize.state.records import Reason

FROM_OUTSIDE = frozenset((Reason.CANCELLED_BY_USER, Reason.TIME_LIMIT, Reason.PREEMPTED))
"""Reasons of runs that a person, a limit or a scheduler has ended. Such a run may have hung before."""

_TIMED_OUT = frozenset(("collective-timeout", "barrier-missed"))
_GROUPS = 5
"""Maximum number of groups of ranks that are shown; the others are counted."""

_NOT_ENTERED = "H1"
_WHILE_IT_RUNS = "; `worldsize stacks RUN` looks again, `worldsize cancel RUN` ends the run"


def stuck_cause(evidence: RunEvidence) -> Cause | None:
    """Return the cause of the hang of a run that is still alive; None if the watchdog has found no hang, or if the run
    has resumed. The hint names the commands that show and end the run."""
    hang = evidence.hang
    if hang is None or hang.resumed is not None:
        return None
    cause = _cause_of(hang, evidence)
    return cause._replace(hint=cause.hint + _WHILE_IT_RUNS)


def is_ended_for_hang(evidence: RunEvidence) -> bool:
    """Return whether worldsize's watchdog ended the run because it was silent, rather than `hang_timeout`, which
    applies if some ranks ended with 0 while others wait."""
    return evidence.reason == Reason.HANG and evidence.message.startswith(SILENT)


def ended_hang_cause(evidence: RunEvidence) -> Cause:
    """Return the cause of a run that worldsize's watchdog has ended because it hung. If the attempt's `hang.json`
    cannot be read, the cause contains only the run's message."""
    if evidence.hang is not None:
        return _cause_of(evidence.hang, evidence)
    time = evidence.failure.time or None if evidence.failure is not None else None
    return Cause(HANG.id, UNKNOWN, evidence.message, (), None, time, (), HANG_HINTS[None])


def timed_out_hang_cause(
    evidence: RunEvidence, said: Sequence[Observation], roots: Sequence[Observation]
) -> Cause | None:
    """Return the hang that the watchdog found as the cause of a failure, if it led to timeouts of collective calls.
    `roots` are those of the observations `said` that can be the cause.

    None if no hang names a rank, if the run continued before the timeouts, or if the messages of the ranks contradict
    the hang or state more.
    """
    hang = evidence.hang
    waited = [each for each in said if each.id in _TIMED_OUT]
    if hang is None or not hang.ranks or not waited or _went_on_before(hang, waited):
        return None
    if not _agrees(hang, evidence, said) or _tells_more(hang, evidence, roots):
        return None
    cause = _cause_of(hang, evidence)
    return cause._replace(evidence=(waited[0].text.strip(), *cause.evidence))


def had_stood_still(evidence: RunEvidence) -> str:
    """Return the text that is added to the cause of a run that a person, a limit or a scheduler ended, "; the run had
    been idle since 14:03:11: rank 3 has not …"; "" if the run did not hang, or ended otherwise."""
    hang = evidence.hang
    if hang is None or hang.resumed is not None or evidence.reason not in FROM_OUTSIDE:
        return ""
    return f"; the run had been idle since {hang.since_text}: {hang.sentence}"


def _went_on_before(hang: Hang, waited: Sequence[Observation]) -> bool:
    """Return whether the run resumed after the `hang`, before the first rank reported that it had waited too long.
    `waited` are these reports. Such a report is itself a sign of life, so a resumption at that time does not count."""
    first = min((each.time for each in waited if each.time is not None), default=None)
    return hang.resumed is not None and (first is None or hang.resumed < first - PRINTED_BEFORE)


def _agrees(hang: Hang, evidence: RunEvidence, said: Sequence[Observation]) -> bool:
    """Return whether the messages of the ranks and of NCCL's watchdog agree with the ranks that the `hang` names. The
    messages must name no other rank, and no rank that did not enter a collective call may have timed out in one."""
    named = {rank for each in said if each.id in _TIMED_OUT and each.role == Role.CASCADE for rank in each.match.whose}
    odd = odd_ranks(calls_given_up(evidence))
    own = set(hang.ranks)
    if not named <= own or not own.issuperset(odd):
        return False
    waited = {rank for each in said if each.id == "collective-timeout" for rank in each.ranks}
    return hang.kind != _NOT_ENTERED or not own & waited


def _tells_more(hang: Hang, evidence: RunEvidence, roots: Sequence[Observation]) -> bool:
    """Return whether other evidence explains why the ranks that the `hang` names kept the other ranks waiting: all of
    them had ended with 0, or one of them had printed a message that can be the cause (`roots`)."""
    ended = {end.rank for end in evidence.ends if end.code == 0}
    return ended.issuperset(hang.ranks) or any(not each.raised and set(each.ranks) & set(hang.ranks) for each in roots)


def _cause_of(hang: Hang, evidence: RunEvidence) -> Cause:
    node = node_of(hang.ranks[0], evidence) if hang.ranks else None
    hint = HANG_HINTS[hang.kind]
    return Cause(HANG.id, hang.standing, hang.sentence, hang.ranks, node, hang.since, tuple(_reasons(hang)), hint)


def _reasons(hang: Hang) -> list[str]:
    """Return the evidence for a hang as lines of text: which witnesses name the ranks, why other witnesses name none,
    and the first groups of ranks with equal stacks."""
    titles = [WITNESSES.get(name, name) for name in hang.witnesses]
    found = ["named by " + " and ".join(titles)] if titles and hang.ranks else []
    found += [f"no rank is named by {WITNESSES.get(name, name)}: {why}" for name, why in hang.missing]
    groups = [line for line in hang.groups if line.strip()]
    left = len(groups) - _GROUPS
    more = [f"and {left} more group{'s' if left > 1 else ''} of ranks"] if left > 0 else []
    return [*found, *groups[:_GROUPS], *more]
