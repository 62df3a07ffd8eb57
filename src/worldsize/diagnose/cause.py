"""Search for the cause of a failure, with a measure of how certain it is. It is a pure function of the evidence.

A cascade is never the cause if a root is known, regardless of which rank ended first. A line that was only printed
makes a cause supported, not established. An exit code alone makes no cause.
"""

from __future__ import annotations

import re
from collections.abc import Sequence

from worldsize.diagnose.cause_record import ESTABLISHED, PRINTED_BEFORE, SUPPORTED, UNKNOWN, Cause
from worldsize.diagnose.evidence import Observation, RunEvidence
from worldsize.diagnose.hang import (
    ended_hang_cause,
    had_stood_still,
    is_ended_for_hang,
    stuck_cause,
    timed_out_hang_cause,
)
from worldsize.diagnose.observations import EXCEPTION, is_root, observations
from worldsize.diagnose.observed_cause import of_observation, unknown_cause
from worldsize.diagnose.reasons import REASONS
from worldsize.diagnose.signatures import SIGNATURES
from worldsize.diagnose.signatures.signature import Role
from worldsize.diagnose.waiting import early_exit_cause, missing_cause
from worldsize.state.first_failure import TIMEOUT_SETTLE
from worldsize.state.hang import ALIVE_STATES
from worldsize.state.records import Failure, Reason, RunState
from worldsize.state.run_state import CANCELLED_MESSAGE

_OF_NCCL = frozenset(
    (
        "driver-too-old",
        "fabric-acs",
        "fabric-peer-lost",
        "gpu-fault",
        "gpu-memory",
        "gpu-shared",
        "host-unreachable",
        "nccl-versions",
        "network-adapters-differ",
        "no-interface",
        "shared-memory",
    )
)
_PARTICULAR = {
    "host-unreachable": frozenset(("name-not-resolved",)),
    "nccl-cuda": _OF_NCCL,
    "nccl-internal": _OF_NCCL,
    "nccl-system": _OF_NCCL,
}
"""Signatures that a library prints before a general exception, and that state what is wrong, by the signature of that
exception."""

_OF_PROGRAM = "subprocess.CalledProcessError: "
"""Start of the exception of a script that started a program which failed. The program's own output states why."""

_SENT = frozenset(("killed", "terminated"))
"""Signatures of signals that another process sent, for a reason that is not known."""

_KERNEL_LATE = 3.0
"""Seconds by which the times of the kernel's messages may differ from the clock."""

_WORKERS = re.compile(r"DataLoader worker \(pid(?:\(s\))? ([\d, ]+)\)")

_OF_NODES = frozenset(("node-failed", "step-refused"))
"""Signatures of a scheduler that state more about a node than that its agent is gone."""

_SIGNALS = 128
"""Limit above which an exit code means a signal."""

_AFTERMATH = frozenset(("native-abort", "segmentation-fault"))
"""Signatures that also end a process whose communication was given up: NCCL's watchdog aborts it."""


def find_cause(evidence: RunEvidence, said: Sequence[Observation] | None = None) -> Cause | None:
    """Return the cause of the run's failure, or of its hang if it still runs; None if it neither failed nor hangs.
    `evidence` contains the known facts about the run. `said` are the observations made from it, if they are known
    already."""
    if evidence.state in ALIVE_STATES:
        return stuck_cause(evidence)
    if evidence.state == RunState.SUCCEEDED or evidence.state not in RunState.FINAL:
        return None
    said = observations(evidence) if said is None else said
    failure = evidence.failure
    if failure is None or failure.rank is None:
        return _run_cause(evidence, said)
    own = [each for each in said if failure.rank in each.ranks]
    return (
        _memory_cause(evidence, said)
        or _raised_cause(evidence, said)
        or timed_out_hang_cause(evidence, said, _roots(said))
        or _printed_cause(evidence, own)
        or _earlier_cause(evidence, said)
        or early_exit_cause(evidence, own)
        or missing_cause(evidence, said)
        or unknown_cause(evidence, own)
    )


def _run_cause(evidence: RunEvidence, said: Sequence[Observation]) -> Cause:
    """Return the cause of the run's failure if no rank is known to have failed, from the run's reason and the
    observations `said` of worldsize's agents or the scheduler."""
    if is_ended_for_hang(evidence):
        return ended_hang_cause(evidence)
    failure = evidence.failure
    reason = REASONS.get(evidence.reason or "")
    node, time = (failure.node_rank, failure.time or None) if failure else (None, None)
    words = [each for each in said if each.is_of_scheduler]
    root = next((each for each in words if is_root(each) and (reason is None or each.id in _OF_NODES)), None)
    if reason is None:
        if root is not None:
            return of_observation(root, SUPPORTED, evidence)
        return Cause("unknown", UNKNOWN, evidence.message or "no evidence explains it", (), node, time, (), "")
    name, meaning, hint = reason
    seen = root or next((each for each in words if each.id == "node-failed"), None)
    if evidence.reason == Reason.NODE_FAILURE and seen is not None and (node is None or seen.id == "step-refused"):
        row, node = next(row for row in SIGNATURES if row.id == seen.id), None
        name, meaning, hint = row.id, seen.match.meaning or row.meaning, row.hint
    is_start = evidence.reason == Reason.ENVIRONMENT
    confirming = [each for each in said if not each.ranks and (each.id == name or (is_start and is_root(each)))]
    time = time or next((each.time for each in confirming if each.time is not None), None)
    sentence = meaning if _says_same(evidence, confirming) else evidence.message or meaning
    sentence += had_stood_still(evidence)
    return Cause(name, ESTABLISHED, sentence, (), node, time, _words_of(confirming, evidence), hint)


def _says_same(evidence: RunEvidence, confirming: Sequence[Observation]) -> bool:
    """Return whether the run's status message adds nothing to the observations `confirming`, which confirm the cause of
    its failure."""
    record = evidence.scheduler
    if evidence.message == (record.message if record is not None else CANCELLED_MESSAGE):
        return True
    words = evidence.message.partition(": ")[2]
    return bool(words) and any(words in each.text for each in confirming)


def _words_of(confirming: Sequence[Observation], evidence: RunEvidence) -> tuple[str, ...]:
    """Return the texts of the observations `confirming`, which confirm the cause of a failure, the scheduler's record
    first."""
    record = evidence.scheduler
    first = [each for each in confirming if record is not None and each.text == record.words]
    return (
        *(f"scheduler: {each.text}" for each in first),
        *(each.text.strip() for each in confirming if each not in first),
    )


def _memory_cause(evidence: RunEvidence, said: Sequence[Observation]) -> Cause | None:
    """Return the cause "host-memory" if the first failed rank, or a worker process of its DataLoader, was killed while
    the kernel or the scheduler counted a kill for lack of memory; None otherwise."""
    failure = evidence.failure
    assert failure is not None
    own = [each for each in said if failure.rank in each.ranks]
    worker = next((each for each in own if each.id == "loader-worker-killed" and _may_be_kill(each)), None)
    killed = worker or next((each for each in own if each.id == "killed"), None)
    words = [each for each in said if _tells_of_kill(each, failure, worker)]
    by_kernel = evidence.reason == Reason.OUT_OF_MEMORY and failure.code == 137
    if not (killed and words) and not by_kernel:
        return None
    row = next(row for row in SIGNATURES if row.id == "host-memory")
    how = f"ended with code {failure.code}" if worker is None or by_kernel else f"ended: {worker.text.strip()}"
    reasons = [f"rank {failure.rank} {how}"]
    reasons += ["the node's kernel counted a kill for lack of memory, without naming the process"] if by_kernel else []
    reasons += [each.text.strip() for each in words[:2]]
    whom = "it" if worker is None or by_kernel else "a worker of its DataLoader"
    what = f"its memory was full, and the kernel killed {whom}"
    ranks = (failure.rank or 0,)
    standing = ESTABLISHED if words else SUPPORTED
    return Cause(row.id, standing, what, ranks, failure.node_rank, failure.time, tuple(reasons), row.hint)


def _tells_of_kill(each: Observation, failure: Failure, worker: Observation | None) -> bool:
    """Return whether the observation `each` confirms that the kernel or scheduler killed a process for lack of memory.
    If the observation has a time, that must be near the time of the rank's `failure`, since the kernel's times are not
    exact. If the observation and `worker`, the message about a killed DataLoader worker, both name a process, it must
    be the same one."""
    if each.id != "host-memory" or each.role != Role.CONFIRMATION:
        return False
    killed, named = re.search(r"Killed process (\d+)", each.text), _WORKERS.search(worker.text if worker else "")
    if killed is not None and named is not None and killed[1] not in named[1].replace(" ", "").split(","):
        return False
    return each.time is None or each.node is None or abs(each.time - failure.time) <= _KERNEL_LATE


def _may_be_kill(worker: Observation) -> bool:
    """Return whether the signal KILL may have ended the DataLoader worker that the observation `worker` is about: its
    line names no other signal, and no exit code."""
    return worker.match.meaning in (worker.match.signature.meaning, worker.match.signature.meaning + ": Killed")


def _raised_cause(evidence: RunEvidence, said: Sequence[Observation]) -> Cause | None:
    """Return the cause of a failure from the exceptions and signals that ended ranks: from the first, by the head's
    clock, that can be a cause. If the clocks leave the order open, that of the first failed rank is used. None if no
    rank ended so, or if all of them ended later than the failure."""
    failure = evidence.failure
    assert failure is not None
    roots = [each for each in _roots(said) if each.raised]
    if not roots:
        return None
    seen = next((each for each in roots if failure.rank in each.ranks), None)
    first = roots[0]
    if seen is None and first.time is not None and first.time > failure.time + _late(failure, said):
        return None
    is_sure = seen is None or lead_is_sure(first, seen, evidence)
    first = first if is_sure else seen or first
    words = _words_before_abort(first, said)
    if words is not None:
        return of_observation(words, SUPPORTED, evidence)
    is_late = seen is None and first.time is not None and first.time > failure.time + PRINTED_BEFORE
    is_any = is_late and first.id == EXCEPTION.id  # a rank that failed this late may have another cause
    standing = SUPPORTED if is_any else ESTABLISHED
    return _particular_cause(first, evidence, said) or of_observation(first, standing, evidence)


def _late(failure: Failure, said: Sequence[Observation]) -> float:
    """Return how many seconds after the first seen `failure` another rank's failure may still be its cause: longer if a
    timeout of a collective call ended the first failed rank, since agents wait that long for others."""
    timed_out = any(each.id == "collective-timeout" and each.raised and failure.rank in each.ranks for each in said)
    return PRINTED_BEFORE + (TIMEOUT_SETTLE if timed_out else 0.0)


def _particular_cause(raised: Observation, evidence: RunEvidence, said: Sequence[Observation]) -> Cause | None:
    """Return the cause from a message that a rank had printed before its exception `raised`, if that exception is a
    general one (such as an NCCL system error, or the failure of a started program) and the message states what is
    wrong; None otherwise."""
    printed = [each for each in said if not each.raised and set(raised.ranks) & set(each.ranks)]
    if _OF_PROGRAM in raised.text and raised.id == "exception":
        printed = [each for each in printed if is_root(each)][-1:]
    else:
        printed = [each for each in printed if each.id in _PARTICULAR.get(raised.id, ())]
    if not printed:
        return None
    found = of_observation(printed[0], SUPPORTED, evidence)
    return found._replace(evidence=(*found.evidence, raised.text.strip()))


def _words_before_abort(found: Observation, said: Sequence[Observation]) -> Observation | None:
    """Return the last observation that a rank had printed before it aborted (`found`) and that can be a cause: a
    program that aborts prints why, and some programs exit with 134 themselves (mpirun). None if the rank did not abort,
    or printed no such message."""
    if found.id != "native-abort" or found.file:
        return None
    printed = [each for each in said if is_root(each) and not each.raised and set(found.ranks) <= set(each.ranks)]
    return printed[-1] if printed and printed[-1].id not in _AFTERMATH else None


def _roots(said: Sequence[Observation]) -> list[Observation]:
    """Return those of the observations `said` that can be the cause of a failure. Signals of unknown origin, and aborts
    of ranks that lost their peers, are left out."""
    cascaded = {rank for each in said if each.role == Role.CASCADE for rank in each.ranks}
    roots = [each for each in said if is_root(each) and each.id not in _SENT]
    return [each for each in roots if each.id not in _AFTERMATH or not cascaded & set(each.ranks)]


def lead_is_sure(first: Observation, second: Observation, evidence: RunEvidence) -> bool:
    """Return whether the observation `first` was made earlier than the observation `second`, as far as the clocks of
    their nodes are known. True if one has no time, or if both are of one node."""
    if first.time is None or second.time is None or first.node == second.node:
        return True
    return second.time - first.time > clock_uncertainty(evidence, first.node, second.node)


def clock_uncertainty(evidence: RunEvidence, *nodes: int | None) -> float:
    """Return by how many seconds the times of `nodes`, converted to the clock of the head node, may be wrong in
    total."""
    return sum(evidence.offsets[node].uncertainty for node in nodes if node is not None and node in evidence.offsets)


def _printed_cause(evidence: RunEvidence, own: Sequence[Observation]) -> Cause | None:
    """Return the cause of a failure from the last message of the first failed rank that can be a cause; None if it
    printed none. `own` are the rank's observations. None also if an exception or a signal ended the rank, since a
    message that it printed before that may be unrelated."""
    if any(each.raised for each in own):
        return None
    printed = [each for each in own if is_root(each)]
    return of_observation(printed[-1], SUPPORTED, evidence) if printed else None


def _earlier_cause(evidence: RunEvidence, said: Sequence[Observation]) -> Cause | None:
    """Return the cause of a failure from the first observation of any rank that can be a cause and is no later than the
    failure that was seen first. None if there is none, or if the failed rank ended with an exit code of its own and
    reported no failure of another rank."""
    failure = evidence.failure
    assert failure is not None
    own = [each for each in said if failure.rank in each.ranks]
    if failure.code <= _SIGNALS and not any(each.role == Role.CASCADE for each in own):
        return None
    roots = [each for each in _roots(said) if each.ranks]
    earlier = [each for each in roots if each.time is None or each.time <= failure.time + PRINTED_BEFORE]
    first = next(iter(earlier), None)
    return None if first is None else of_observation(first, SUPPORTED, evidence)
