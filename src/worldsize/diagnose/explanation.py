"""Explanation of a run's end: its cause, and the chain of observations, each a link with its role."""

from __future__ import annotations

from collections.abc import Sequence

from worldsize.common.named_tuple import Any, NamedTuple
from worldsize.common.numbers import ranks_text
from worldsize.diagnose.cause import clock_uncertainty, find_cause, lead_is_sure
from worldsize.diagnose.cause_record import PRINTED_BEFORE, SUPPORTED, UNKNOWN, Cause
from worldsize.diagnose.evidence import Observation, RunEvidence
from worldsize.diagnose.hang import FROM_OUTSIDE
from worldsize.diagnose.observations import observations
from worldsize.diagnose.reasons import HANG
from worldsize.diagnose.signatures import documentation_of
from worldsize.diagnose.signatures.signature import Role
from worldsize.diagnose.waiting import node_of

_ENDS_OF = {"host-memory": ("killed", "loader-worker-killed")}
"""Signatures of how ranks end, by the id of a cause that another source reports."""

LONGEST = 12
"""Maximum number of links of the chain that are shown; the others are counted."""

_TERM_CODE = 128 + 15


class Link(NamedTuple):
    """An observation with its role in the chain. `ranks` are the ranks that reported the same; none for a scheduler,
    and for the kernel of `node`. `text` is their text, and `meaning` explains it; "" if it adds nothing. `line` belongs
    to an exception. For a log line `offset` is known, in bytes, and a caller that can read the log sets `line`."""

    role: str
    ranks: tuple[int, ...]
    node: int | None
    time: float | None
    file: str
    line: int | None
    text: str
    meaning: str = ""
    offset: int | None = None

    def to_json(self) -> dict[str, Any]:
        value = self._asdict()
        del value["offset"]
        return {"role": value.pop("role"), "rank": self.ranks[0] if self.ranks else None, **value}


class Explanation(NamedTuple):
    """The explanation of how one attempt of a run ended. `left_out` is the number of further links, which `chain` does
    not contain since its length is limited. `notes` are remarks on the order of events, or on the evidence."""

    attempt: int
    cause: Cause
    chain: tuple[Link, ...]
    left_out: int
    notes: tuple[str, ...]

    @property
    def documentation(self) -> str:
        """The place in the documentation that describes the cause."""
        return documentation_of(self.cause.id)

    def to_json(self) -> dict[str, Any]:
        cause = self.cause
        return {
            "cause": {
                "id": cause.id,
                "standing": cause.standing,
                "sentence": cause.sentence,
                "rank": cause.rank,
                "ranks": list(cause.ranks),
                "node": cause.node,
                "time": cause.time,
                "attempt": self.attempt,
                "evidence": list(cause.evidence),
                "hint": cause.hint,
                "documentation": self.documentation,
            },
            "chain": [link.to_json() for link in self.chain],
            "notes": list(self.notes),
        }


def explain(evidence: RunEvidence) -> Explanation | None:
    """Return the explanation of why a run ended as it did, or why it hangs, from the `evidence` about it; None if it
    succeeded, or still runs without a hang."""
    said = observations(evidence)
    cause = find_cause(evidence, said)
    if cause is None:
        return None
    links = _hang_link(evidence, cause)
    links += [_link(each, cause, evidence) for each in said if not _is_elsewhere(each, cause)]
    links.sort(key=lambda link: link.role != Role.ROOT)
    links += _stopped_link(evidence, cause, any(each.id == cause.id and each.is_of_scheduler for each in said))
    return Explanation(
        evidence.attempt, cause, tuple(links[:LONGEST]), max(0, len(links) - LONGEST), _notes(evidence, said)
    )


def _link(each: Observation, cause: Cause, evidence: RunEvidence) -> Link:
    role = each.role
    if role == Role.ROOT and not _is_cause(each, cause):
        role = Role.CASCADE if _is_later(each, cause) else Role.CONFIRMATION
    is_warning = role == Role.CONFIRMATION and cause.standing == SUPPORTED and each.id == cause.id
    if is_warning and each.ranks and each.text.strip() in cause.evidence:
        role = Role.ROOT  # the rank's exception shows that it was no mere warning
    whose = f"{ranks_text(each.match.whose)} " if each.match.whose else ""
    meaning = whose + each.match.meaning
    node = node_of(each.ranks[0], evidence) if each.ranks else each.node
    return Link(role, each.ranks, node, each.time, each.file, each.line, each.text.strip(), meaning, each.offset)


def _hang_link(evidence: RunEvidence, cause: Cause) -> list[Link]:
    """Return a list with the link of the explanation's chain for a hang after which the run did not resume; empty
    without such a hang. If the hang is the cause, or may be why a person, a limit or a scheduler ended the run, the
    link's role is ROOT, else CONFIRMATION."""
    hang = evidence.hang
    if hang is None or (hang.resumed is not None and cause.id != HANG.id):
        return []
    is_why = cause.id == HANG.id or (bool(hang.ranks) and evidence.reason in FROM_OUTSIDE)
    node = node_of(hang.ranks[0], evidence) if hang.ranks else 0  # the head has found it
    file, line, _ = hang.place or ("", None, "")
    role = Role.ROOT if is_why else Role.CONFIRMATION
    return [Link(role, hang.ranks, node, hang.since, file, line, hang.sentence, HANG.meaning)]


def _is_cause(each: Observation, cause: Cause) -> bool:
    names = (cause.id.removesuffix("-on-one-node"), *_ENDS_OF.get(cause.id, ()))
    return each.id in names and set(each.match.whose or each.ranks) <= set(cause.ranks)


def _is_elsewhere(each: Observation, cause: Cause) -> bool:
    """Return whether the observation `each` is a message that a rank which the cause does not name only printed, and
    printed before the cause. Such a message is unrelated to the known cause."""
    if each.role != Role.ROOT or each.raised or each.time is None or cause.time is None or cause.standing == UNKNOWN:
        return False
    whose = set(each.match.whose or each.ranks)
    return bool(whose) and not whose & set(cause.ranks) and each.time < cause.time - PRINTED_BEFORE


def _is_later(each: Observation, cause: Cause) -> bool:
    if each.ranks != cause.ranks:
        return True
    if each.time is None or cause.time is None:
        return bool(each.ranks)
    return each.time > cause.time + PRINTED_BEFORE


def _stopped_link(evidence: RunEvidence, cause: Cause, by_scheduler: bool) -> list[Link]:
    """Return a list with one link of the explanation's chain for the ranks that ran on until worldsize ended them, or,
    if no rank had failed and `by_scheduler`, until the scheduler's TERM ended them. Empty without such ranks."""
    with_job = by_scheduler and not cause.ranks
    ended = [end for end in evidence.ends if end.stopped or (with_job and end.code == _TERM_CODE)]
    stopped = [end for end in ended if end.rank not in cause.ranks and not end.exception]
    if not stopped:
        return []
    time = min((end.ended for end in stopped if end.ended is not None), default=None)
    ranks = tuple(end.rank for end in stopped)
    text = "ended with the job" if with_job else "ended after that by worldsize"
    return [Link(Role.CASCADE, ranks, stopped[0].node, time, "", None, text)]


def _notes(evidence: RunEvidence, said: Sequence[Observation]) -> tuple[str, ...]:
    """Return a note if it is uncertain, because of the clocks of their nodes, which of the first two observations that
    can be the cause was earlier; no note otherwise."""
    roots = [each for each in said if each.role == Role.ROOT and each.time is not None and each.node is not None]
    if len(roots) < 2 or lead_is_sure(roots[0], roots[1], evidence):
        return ()
    first, second = roots[:2]
    lead = 1000.0 * ((second.time or 0.0) - (first.time or 0.0))
    unsure = 1000.0 * clock_uncertainty(evidence, first.node, second.node)
    what = f"which of nodes {first.node} and {second.node} was first is uncertain"
    return (f"{what}: {lead:.1f} ms are between them, and their clocks agree to {unsure:.1f} ms",)
