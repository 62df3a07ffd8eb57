"""Conversion of an observation to a cause, and the cause that is reported if no observation shows one."""

from __future__ import annotations

import re
from collections.abc import Sequence

from worldsize.common.numbers import nodes_text
from worldsize.diagnose.cause_record import UNKNOWN, Cause
from worldsize.diagnose.evidence import Observation, RunEvidence
from worldsize.diagnose.signatures.signature import Role
from worldsize.diagnose.waiting import node_of
from worldsize.state.exit_records import signal_name

_OF_LOST_PEERS = frozenset(("fabric-flushed",))
"""Signatures of cascades that state more about a lost peer than that it is gone."""

_PLACES = frozenset(("path-missing", "module-missing", "permission"))
"""Signatures that may apply to one node alone."""

_OWN_CODE = "its last lines may give the reason; else find where the script ends with this code (exit, sys.exit)"
_NO_RANK = (
    "find out which server it tried to reach: a database or a tracker that is down, or another process of the script"
)

_OF_PYTHON = re.compile(r"(?!.*Rendezvous)[\w.]*(?:Connection\w*|BrokenPipe)Error\b")
"""Exceptions of connections that a script has made itself. Those of torch and NCCL are between ranks."""


def unknown_cause(evidence: RunEvidence, own: Sequence[Observation]) -> Cause:
    """Return the cause, of standing UNKNOWN, that is reported if the evidence shows no cause of the failure. It is made
    from the most informative of `own`, the observations of the rank that failed first, else from that rank's exit code
    and its last line."""
    failure = evidence.failure
    assert failure is not None
    ranks = () if failure.rank is None else (failure.rank,)
    told = [each for each in own if each.role != Role.CONFIRMATION]
    best = (
        next((each for each in told if each.id in _OF_LOST_PEERS), None)
        or next((each for each in told if each.raised), None)
        or next(iter(told), None)
    )
    if best is None:
        name = signal_name(failure.code)
        how = f"was killed by signal {failure.code - 128} ({name})" if name else f"ended with code {failure.code}"
        said = _last_words(failure.rank, evidence)
        what = f"it {how}, and " + ("none of its lines matches a known cause" if said else "wrote nothing")
        last = (f"its last line: {said}",) if said else ()
        return Cause("unknown", UNKNOWN, what, ranks, failure.node_rank, failure.time, last, "" if name else _OWN_CODE)
    if best.id == "peer-lost" and _OF_PYTHON.match(best.text) and not _has_lost_rank(best, evidence):
        row = best.match.signature._replace(hint=_NO_RANK)
        match = best.match._replace(signature=row, meaning="it had no connection, and no other rank had ended")
        best = best._replace(match=match)
    return of_observation(best, UNKNOWN, evidence)


def _last_words(rank: int | None, evidence: RunEvidence) -> str:
    """Return the last line with a word in it from the end of rank `rank`'s log, which `evidence` contains; "" if there
    is none, or if `rank` is None."""
    lines = () if rank is None else evidence.lines.get(rank, ())
    return next((line.text.strip() for line in reversed(lines) if re.search(r"\w", line.text)), "")


def _has_lost_rank(lost: Observation, evidence: RunEvidence) -> bool:
    """Return whether a rank that is not among those of the observation `lost`, which lost a peer, may have ended by
    itself: it was not stopped by an agent."""
    return any(end.rank not in lost.ranks and not end.stopped for end in evidence.ends)


def of_observation(each: Observation, standing: str, evidence: RunEvidence) -> Cause:
    """Convert the observation `each` to a Cause with the level of certainty `standing`. It is a cause on one node alone
    if agents of other nodes have found there the file or module that was missing."""
    row = each.match.signature
    name, sentence, reasons = row.id, each.match.meaning, [each.text.strip()]
    elsewhere = _nodes_that_have_it(each, evidence) if row.id in _PLACES else ()
    if elsewhere:
        name = f"{row.id}-on-one-node"
        sentence += f", on node {each.node} alone"
        reasons.append(f"it exists on {nodes_text(elsewhere)}, whose agents looked for it")
    ranks = each.match.whose or each.ranks
    node = node_of(ranks[0], evidence) if ranks else each.node
    return Cause(name, standing, sentence, ranks, node, each.time, tuple(reasons), row.hint)


def _nodes_that_have_it(each: Observation, evidence: RunEvidence) -> tuple[int, ...]:
    """Return the other nodes whose agents have found the file or module that the observation `each` reports as missing
    on its node; none if one of them lacks it too."""
    answers = {
        node: answer.found
        for node, answer in evidence.compared.items()
        if node != each.node and answer.name in each.text
    }
    return tuple(sorted(answers)) if answers and all(answers.values()) else ()
