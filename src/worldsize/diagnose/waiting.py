"""Causes of failures of ranks that waited for a rank that had ended, that did not come, or that another rank names."""

from __future__ import annotations

from collections.abc import Sequence

from worldsize.common.numbers import ranks_text
from worldsize.diagnose.cause_record import ESTABLISHED, PRINTED_BEFORE, SUPPORTED, UNKNOWN, Cause
from worldsize.diagnose.collectives import missing_ranks
from worldsize.diagnose.evidence import Observation, RunEvidence
from worldsize.diagnose.reasons import REASONS
from worldsize.diagnose.signatures.signature import Role
from worldsize.state.records import Reason


def early_exit_cause(evidence: RunEvidence, own: Sequence[Observation]) -> Cause | None:
    """Return the cause if ranks had ended with 0 while the rank that failed first still waited for them in a collective
    call; None otherwise. `own` are the observations of the rank that failed first."""
    failure = evidence.failure
    assert failure is not None
    lost = next((each for each in own if each.raised and each.id in ("collective-timeout", "peer-lost")), None)
    until = failure.time + PRINTED_BEFORE
    ended = [end for end in evidence.ends if end.code == 0 and end.ended is not None and end.ended <= until]
    if lost is None or not ended:
        return None
    ranks = tuple(end.rank for end in ended)
    known = REASONS[Reason.HANG]
    sentence = f"{ranks_text(ranks)} ended with 0 while {ranks_text(lost.ranks)} still waited"
    return Cause(known.id, SUPPORTED, sentence, ranks, ended[0].node, ended[0].ended, (lost.text.strip(),), known.hint)


def missing_cause(evidence: RunEvidence, said: Sequence[Observation]) -> Cause | None:
    """Return the cause of a failure if ranks waited for other ranks in a collective call until it timed out, or if a
    rank's message names the ranks that failed; None otherwise. The cause names the ranks that did not come, if they are
    known."""
    waited = [each for each in said if each.id == "collective-timeout"]
    named = next((each for each in said if each.role == Role.CASCADE and each.match.whose), None)
    if named is not None:
        return _named_cause(named, evidence)
    if not waited:
        return None
    left = [each for each in said if each.id == "peer-lost" and each.raised]
    waiting = sorted({rank for each in (*waited, *left) for rank in each.ranks})
    missing = missing_ranks(evidence, waiting)
    row = waited[0].match.signature
    who = ranks_text(waiting)
    if not missing:
        sentence = f"{who} waited in a collective call until that timed out; which ranks did not join is unknown"
        return Cause(row.id, UNKNOWN, sentence, (), None, waited[0].time, (waited[0].text.strip(),), row.hint)
    sentence = f"{ranks_text(missing)} did not join a collective call in which {who} waited"
    node = node_of(missing[0], evidence)
    return Cause(row.id, SUPPORTED, sentence, missing, node, waited[0].time, (waited[0].text.strip(),), row.hint)


def _named_cause(each: Observation, evidence: RunEvidence) -> Cause:
    """Return the cause of a failure from the observation `each`, in which a rank reports a failure of other ranks that
    it names."""
    row, whose = each.match.signature, each.match.whose
    sentence = f"{ranks_text(whose)} {each.match.meaning}"
    standing = ESTABLISHED if each.raised else SUPPORTED
    return Cause(
        row.id, standing, sentence, whose, node_of(whose[0], evidence), each.time, (each.text.strip(),), row.hint
    )


def node_of(rank: int, evidence: RunEvidence) -> int | None:
    """Return the number of the node on which rank `rank` ran; None if the evidence does not contain the rank."""
    return next((end.node for end in evidence.ends if end.rank == rank), None)
