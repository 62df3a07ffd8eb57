"""Observations from the evidence of a run: each line that matches a signature, with equal ones of many ranks merged."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence

from worldsize.common.named_tuple import Any
from worldsize.diagnose.ends import ENDS, SIGNALS
from worldsize.diagnose.evidence import Line, Observation, RankEnd, RunEvidence
from worldsize.diagnose.exception_text import direct_cause, without_frames
from worldsize.diagnose.later_work import has_ended_rank, is_past
from worldsize.diagnose.signatures import SIGNATURES, signatures_for
from worldsize.diagnose.signatures.signature import Match, Role, Signature, match_text, without_advice
from worldsize.state.exit_records import signal_name
from worldsize.state.records import Reason

EXCEPTION = Signature(
    "exception",
    "",
    "an exception that the program did not catch",
    "",
    "Python",
)
"""Signature of an exception that matches no row of the tables."""

_RAISED_FROM_BETTER = frozenset(("loader-worker-killed",))
"""Rows of exceptions that are raised from one that states more: by which signal, and why."""

_SHARED = frozenset(("collective-mismatch",))
"""Rows of events that involve several ranks, each of which reports the event from its own side."""

_LASTING = frozenset(("collective-timeout",))
"""Rows that count regardless of how much is written later: NCCL's watchdog takes a minute to abort a rank."""

_FIRST = 60
"""Maximum number of characters of an exception's first sentence that are shown before the line that states more."""

_SPAWNED = "torch.multiprocessing.spawn.ProcessRaisedException"
_STEP = "*** STEP "
_RECORDS = {
    Reason.TIME_LIMIT: "time-limit",
    Reason.PREEMPTED: "preempted",
    Reason.NODE_FAILURE: "node-failed",
    Reason.OUT_OF_MEMORY: "host-memory",
    Reason.CANCELLED_BY_USER: "cancelled",
    Reason.SIGNAL: "killed",
}
"""Signatures that a scheduler's record confirms, by the reason in the record."""


def observations(evidence: RunEvidence) -> list[Observation]:
    """Return all observations in the `evidence` about a run: log lines, exceptions and signals that match a signature.
    They are in the order of time, those without a time last. Equal ones of several ranks are merged."""
    found = [*_of_ranks(evidence), *_of_machines(evidence)]
    return sorted(_folded(found), key=lambda each: (each.time is None, each.time or 0.0))


def _of_ranks(evidence: RunEvidence) -> Iterator[Observation]:
    for end in _own_ends(evidence):
        raised = _raised_observation(end, evidence) or _signal_observation(end, evidence)
        said = _without_parts(_line_observations(end, evidence))
        if raised is None:
            yield from said
            continue
        same = next((each for each in said if each.id == raised.id), None)
        if same is not None and end.exception is None and not _is_thrown(raised.text):
            raised = _with_words(raised, same)
        whole = end.exception.text if end.exception is not None else raised.text
        said = [each for each in said if not _is_told_by(raised._replace(text=whole), each)]
        yield from said if end.exception is not None else _until(raised.time, said)
        yield raised


def _until(ended: float | None, said: Sequence[Observation]) -> list[Observation]:
    """Return a rank's observations `said` with no time after `ended`, the time of the rank's end, since the times of
    log lines may be late."""
    if ended is None:
        return list(said)
    return [each if each.time is None else each._replace(time=min(each.time, ended)) for each in said]


def _is_told_by(raised: Observation, printed: Observation) -> bool:
    """Return whether the observation `printed`, a log line, only repeats `raised`, the exception or signal that ended
    the rank. It has the same signature or the same message, or belongs to the exception from which the last one was
    raised, or to the abort that ended the rank."""
    if printed.id in (raised.id, *_RAISED_FROM_BETTER) or (printed.id == "native-abort" and _is_thrown(raised.text)):
        return True
    return _is_part(printed.text, raised.text)


def _without_parts(said: Sequence[Observation]) -> list[Observation]:
    """Return a rank's observations `said` without those whose message is contained in the text of another observation
    that can be the cause and so states more."""
    roots = [each for each in said if is_root(each)]
    return [each for each in said if is_root(each) or not any(_is_part(each.text, root.text) for root in roots)]


def _is_part(text: str, other: str) -> bool:
    """Return whether the message of the exception `text` ("Type: message") is contained in the text `other`. False if
    `text` has no message."""
    message = text.partition(": ")[2].strip()
    return bool(message) and message in other


def _raised_observation(end: RankEnd, evidence: RunEvidence) -> Observation | None:
    """Return the observation of the uncaught exception in the rank's `end`; None if there is none. Its signature is the
    row of the tables that the exception's text matches, else EXCEPTION. If the exception matches no row, or a less
    exact one, the row of the exception from which it was raised is used."""
    raised = end.exception
    if raised is None:
        return None
    rows = signatures_for(evidence.rehearsal)
    text = "\n".join(line for line in without_frames(raised.text).split("\n") if without_advice(line).strip())
    found = match_text(text, rows, raised=True)
    text = _shortened(text, found)
    if found is None or found.signature.id in _RAISED_FROM_BETTER:
        first = direct_cause(raised.text, evidence.lines.get(end.rank, ()))
        better = match_text(first, rows, raised=True)
        if better is not None:
            found, text = better, f"{text}, raised from {_shortened(first, better).partition('. ')[0]}"
    match = found or Match(EXCEPTION, _meaning_of_exception(raised.text, text))
    time = _head_time(raised.time, end.node, evidence)
    has_ended = has_ended_rank(raised.time, end, evidence.lines.get(end.rank, ()))
    return Observation(match, text, (end.rank,), end.node, time, raised.file, raised.number, raised=has_ended)


def _meaning_of_exception(text: str, shown: str) -> str:
    """Return a sentence on the exception `text` ("Type: message") that matches no signature. For torch's exception
    about a spawned process, the sentence names the exception of that process, from the last line of `shown`."""
    kind = text.partition(":")[0]
    if kind != _SPAWNED:
        return f"the program raised {kind}, and did not catch it"
    own = shown.rstrip().rpartition("\n")[2].partition(":")[0]
    return f"a process that it had spawned raised {own}, and did not catch it"


def _shortened(text: str, match: Match | None) -> str:
    """Return the exception's `text`. If a signature matches in one of its later lines, return its first sentence and
    that line instead."""
    first, _, others = text.partition("\n")
    if match is None or not others or not match.line or first.startswith(match.line):
        return text
    sentence = first.partition(". ")[0]
    if len(sentence) > _FIRST:
        sentence = sentence[:_FIRST].rpartition(" ")[0]
    return f"{sentence} … {match.line.strip()}"


def _own_ends(evidence: RunEvidence) -> Iterator[RankEnd]:
    """Yield the RankEnd of every rank of the run. If the first failure is that of a task that a user's own batch script
    started with srun, the task's end is taken from the failure. The script, which takes the place of rank 0, ends with
    the same code, so that code is not counted for rank 0."""
    failure = evidence.failure
    ends = {end.rank: end for end in evidence.ends}
    task = ends.get(-1 if failure is None or failure.rank is None else failure.rank)
    for end in evidence.ends:
        if task is None or failure is None or task.code is not None:
            yield end
        elif end is task:
            yield end._replace(code=failure.code, ended=failure.time)
        else:
            yield end._replace(code=None) if end.rank == 0 and end.code == failure.code else end


def _signal_observation(end: RankEnd, evidence: RunEvidence) -> Observation | None:
    """Return the observation of the signal that ended the rank of `end`; None if the rank ended otherwise, or if an
    agent or the scheduler ended it. If an uncaught C++ exception aborted the rank, the observation is that of its
    message."""
    name = None if end.stopped else SIGNALS.get(end.code or 0)
    by_scheduler = evidence.failure is None or evidence.failure.rank is None
    if name is None or (name == "terminated" and by_scheduler):
        return None
    row = ENDS.get(name) or next(row for row in SIGNATURES if row.id == name)
    time = _head_time(end.ended, end.node, evidence)
    thrown = _thrown_line(end, evidence) if name == "native-abort" else None
    if thrown is not None:
        match = match_text(thrown.text, signatures_for(evidence.rehearsal), raised=True) or Match(row, row.meaning)
        return Observation(
            match, thrown.text, (end.rank,), end.node, time, thrown.file, offset=thrown.offset, raised=True
        )
    text = f"rank {end.rank} was killed by signal {(end.code or 0) - 128} ({signal_name(end.code or 0)})"
    return Observation(Match(row, row.meaning), text, (end.rank,), end.node, time, raised=True)


def _thrown_line(end: RankEnd, evidence: RunEvidence) -> Line | None:
    """Return the line in the rank's log with the message of an uncaught C++ exception ("what(): …"), which aborted the
    rank; None if there is none."""
    lines = reversed(evidence.lines.get(end.rank, ()))
    return next((line for line in lines if _is_thrown(line.text)), None)


def _is_thrown(text: str) -> bool:
    return text.lstrip().startswith("what(): ")


def _with_words(signal: Observation, said: Observation) -> Observation:
    """Return the observation `signal` of the signal that ended a rank, with the text and the place of `said`, the line
    that the program printed about the signal before."""
    return signal._replace(text=f"{signal.text}: {said.text.strip()}", file=said.file, offset=said.offset)


def _line_observations(end: RankEnd, evidence: RunEvidence) -> list[Observation]:
    """Return the observations in the log of the rank of `end`: for each signature the first matching line after which
    the rank did not work on. Confirmations, and the rows of `_LASTING`, count even if the rank did."""
    found: dict[str, Observation] = {}
    log = evidence.lines.get(end.rank, ())
    for index, line, match in _matched(log, evidence):
        row = match.signature
        counts = row.role == Role.CONFIRMATION or row.id in _LASTING or not is_past(index, log)
        if counts and row.id not in found:
            time = _head_time(line.time, end.node, evidence)
            found[row.id] = Observation(match, line.text, (end.rank,), end.node, time, line.file, offset=line.offset)
    return list(found.values())


def _of_machines(evidence: RunEvidence) -> Iterator[Observation]:
    for node, lines in evidence.machine.items():
        said = []
        for _, line, match in _matched(lines, evidence):
            time = line.time if node is None else _head_time(line.time, node, evidence)
            said.append(Observation(match, line.text, (), node, time, line.file, offset=line.offset))
        yield from said if node is not None else _of_jobs(said)
    if evidence.scheduler is not None and evidence.scheduler.reason in _RECORDS:
        record = evidence.scheduler
        row = Signature(_RECORDS[record.reason or ""], "", "", "", "the scheduler", Role.CONFIRMATION)
        yield Observation(Match(row, ""), record.words, (), None, None)


def _of_jobs(said: Iterable[Observation]) -> list[Observation]:
    """Return, for each signature, the most specific of `said`, the observations in the scheduler's lines about its job.
    A scheduler reports one cause for each step and each node."""
    found: dict[str, Observation] = {}
    for each in said:
        known = found.get(each.id)
        if known is None or _vagueness(each) < _vagueness(known):
            found[each.id] = each
    return list(found.values())


def _vagueness(each: Observation) -> tuple[bool, bool]:
    """Return a sort key for an observation in the scheduler's lines that is lower for a more specific text. A text that
    names what it is about is the most specific, then one about the whole job rather than a step."""
    return each.match.meaning == each.match.signature.meaning, _STEP in each.text


def _matched(lines: Iterable[Line], evidence: RunEvidence) -> Iterator[tuple[int, Line, Match]]:
    rows = signatures_for(evidence.rehearsal)
    for index, line in enumerate(lines):
        match = match_text(line.text, rows, raised=False)
        if match is not None:
            yield index, line, match


def _head_time(time: float | None, node: int, evidence: RunEvidence) -> float | None:
    """Convert `time`, in Unix seconds by the clock of node `node`, to the clock of the head node. Return it unchanged
    if the node's clock offset is unknown; None for None."""
    offset = evidence.offsets.get(node)
    return time if time is None or offset is None else time - offset.seconds


def _folded(found: Sequence[Observation]) -> list[Observation]:
    """Return the observations `found` with equal ones of several ranks merged, separately for those that ended their
    ranks and those that did not. Numbers in their texts are ignored. Of cascades, and of the rows of `_SHARED`, the
    whole text is ignored, and only the ranks that it names are compared."""
    same: dict[tuple[Any, ...], list[Observation]] = {}
    for each in found:
        is_same = each.role == Role.CASCADE or each.id in _SHARED
        words = each.match.whose if is_same else _without_numbers(each.text)
        same.setdefault((each.id, words, each.raised, not each.ranks), []).append(each)
    return [_first_of(group) for group in same.values()]


def _first_of(group: Sequence[Observation]) -> Observation:
    """Merge a group of equal observations of several ranks into one, with all their ranks. Time and node are those of
    the earliest, and the text is that of the lowest rank."""
    first = min(group, key=lambda each: (each.time is None, each.time or 0.0, each.ranks))
    ranks = tuple(sorted({rank for each in group for rank in each.ranks}))
    words = min(group, key=lambda each: each.ranks)
    return words._replace(ranks=ranks, node=first.node, time=first.time)


def _without_numbers(text: str) -> str:
    return re.sub(r"[0-9]+", "#", text)


def is_root(observation: Observation) -> bool:
    """Return whether the observation's signature has the role ROOT, so that it can be the cause of a failure."""
    return observation.role == Role.ROOT
