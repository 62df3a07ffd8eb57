"""Table of every state that Slurm gives a job, 20.11 to 26.05, and what it means for a run.

The words are those of job_state_string, job_state_string_compact and job_state_string_complete (Slurm's
src/common/slurm_protocol_defs.c). An unknown word has the phase "unknown", and never counts as a success.
"""

from __future__ import annotations

from worldsize.common.named_tuple import NamedTuple
from worldsize.state.records import Reason


class SlurmState(NamedTuple):
    """The meaning of a Slurm state.

    phase    "queued" | "running" | "ended" | "unknown", as an observation's
    reason   worldsize's `Reason` if the state itself implies one
    words    text for people, after "it "
    compact  squeue's short form; "" if there is none
    stuck    whether the job waits, and will not start unless a person intervenes
    """

    phase: str
    reason: str | None
    words: str
    compact: str = ""
    stuck: bool = False


STATES = {
    # waiting
    "PENDING": SlurmState("queued", None, "waits", "PD"),
    "REQUEUED": SlurmState("queued", None, "was put back into the queue", "RQ"),
    "REQUEUE_FED": SlurmState("queued", None, "was put back into the federation's queue", "RF"),
    "REQUEUE_HOLD": SlurmState("queued", None, "was put back into the queue, and is held there", "RH", stuck=True),
    "SPECIAL_EXIT": SlurmState("queued", None, "was put back after a special exit code, and is held", "SE", stuck=True),
    "RESV_DEL_HOLD": SlurmState("queued", None, "is held: its reservation was deleted", "RD", stuck=True),
    "LAUNCH_FAILED": SlurmState("queued", None, "could not be launched, and was put back"),
    "RECONFIG_FAIL": SlurmState("queued", None, "was put back: a node could not be set up for it"),
    "REQUEUED_CRON": SlurmState("queued", None, "was put back for its next turn", "RC"),
    # it has nodes
    "CONFIGURING": SlurmState("running", None, "has nodes, which are being made ready", "CF"),
    "POWER_UP_NODE": SlurmState("running", None, "has nodes, which are being powered up"),
    "RUNNING": SlurmState("running", None, "runs", "R"),
    "RESIZING": SlurmState("running", None, "is changing its size", "RS"),
    "SIGNALING": SlurmState("running", None, "is being sent a signal", "SI"),
    "STOPPED": SlurmState("running", None, "is stopped: its processes were sent SIGSTOP and keep their nodes", "ST"),
    "SUSPENDED": SlurmState("running", None, "is suspended by Slurm: its processes do not run", "S"),
    "COMPLETING": SlurmState("running", None, "is ending: processes or the epilog are still there", "CG"),
    "EXPEDITING": SlurmState("running", None, "is ending: Slurm decides whether to put it back at once"),
    "STAGE_OUT": SlurmState("running", None, "is ending: its burst buffer is being written out", "SO"),
    "UPDATE_DB": SlurmState("running", None, "is being entered into accounting"),
    # over
    "COMPLETED": SlurmState("ended", None, "ended", "CD"),
    "CANCELLED": SlurmState("ended", Reason.CANCELLED_BY_USER, "was cancelled", "CA"),
    "FAILED": SlurmState("ended", None, "failed", "F"),
    "TIMEOUT": SlurmState("ended", Reason.TIME_LIMIT, "reached its time limit", "TO"),
    "DEADLINE": SlurmState("ended", Reason.TIME_LIMIT, "could not end before its deadline", "DL"),
    "OUT_OF_MEMORY": SlurmState("ended", Reason.OUT_OF_MEMORY, "ran out of memory", "OOM"),
    "PREEMPTED": SlurmState("ended", Reason.PREEMPTED, "was preempted by a job that goes first", "PR"),
    "NODE_FAIL": SlurmState("ended", Reason.NODE_FAILURE, "lost a node", "NF"),
    "BOOT_FAIL": SlurmState("ended", Reason.NODE_FAILURE, "did not start: a node failed to boot", "BF"),
    # states that do not describe a job of this cluster
    "REVOKED": SlurmState("unknown", None, "runs on another cluster of the federation", "RV"),
    "UNINITIALISED": SlurmState("unknown", None, "has no state yet"),
}

_COMPACT = {state.compact: name for name, state in STATES.items() if state.compact}
_SHORTEST_CUT = 4
_FLAGS_OF_NO_WEIGHT = frozenset(("UPDATE_DB", "LAUNCH_FAILED", "POWER_UP_NODE", "RECONFIG_FAIL"))
"""Flags that slurmctld's own job_state_string omits in favour of the base state."""


def full_name(text: str) -> str:
    """Return Slurm's full word for the job state `text` as squeue or sacct printed it: "R", "CANCELLED by 0",
    "CANCELLED+", "OUT_OF_ME+", "RUNNING,COMPLETING" (a flag has priority over the base state), "timeout". An unknown
    word is returned as it is, in upper case."""
    words = text.strip().upper().split(" BY ")[0].rstrip("+").rstrip()
    base, *flags = words.split(",") if words else [""]
    for word in (*flags, base):
        name = _full_word(word.strip())
        if name in STATES and name not in _FLAGS_OF_NO_WEIGHT:
            return name
    return _full_word(base)


def state_of(text: str) -> SlurmState:
    """Return the SlurmState, the row of the table `STATES`, for a job state as Slurm printed it. An unknown word gives
    a row with the phase "unknown"."""
    name = full_name(text)
    known = STATES.get(name)
    return known or SlurmState("unknown", None, "is in state {}, which is unknown to this release".format(name or "?"))


def _full_word(word: str) -> str:
    if word in STATES:
        return word
    if word in _COMPACT:
        return _COMPACT[word]
    longer = [name for name in STATES if name.startswith(word)] if len(word) >= _SHORTEST_CUT else []
    return longer[0] if len(longer) == 1 else word
