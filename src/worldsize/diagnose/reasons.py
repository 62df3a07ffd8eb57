"""Causes that worldsize's own agents, a scheduler or the user give as a run's reason."""

from __future__ import annotations

from worldsize.common.named_tuple import NamedTuple
from worldsize.state.records import Reason


class KnownReason(NamedTuple):
    """The explanation of a run's reason. `id` is the cause's id. `meaning` is used if the run itself states no more."""

    id: str
    meaning: str
    hint: str


HANG_HINTS = {
    "H1": "find out what that rank does there while the others wait: work on one rank alone (evaluation, a "
    "checkpoint, a download), a lock, data that do not come",
    "H2": "all ranks must make the same collective calls in the same order: look for an `if` on the rank, and for "
    "batches of different number or length",
    "H3": "look at that rank's node: its GPU and its network (`worldsize check`, the kernel's log), and whether "
    "the process was stopped",
    None: "compare the groups of ranks: the one that keeps the others waiting is most often in the smallest group",
}
"""Hints for a hang, by its kind; None is the kind of a hang that names no rank."""

HANG = KnownReason("hang", "the run made no progress: ranks waited for another one", "; or: ".join(HANG_HINTS.values()))
"""The cause for `Reason.HANG` if the watch over silent runs found the hang, and for the failures that such a hang leads
to."""

REASONS = {
    Reason.RENDEZVOUS: KnownReason(
        "nodes-missing",
        "not every node joined in time",
        "`worldsize check` tries the ports between the nodes; a firewall, or the wrong one of the head's addresses: "
        "WORLDSIZE_ADDRESS in setup sets another",
    ),
    Reason.NODE_FAILURE: KnownReason(
        "node-lost",
        "a node's agent was killed, or stopped responding",
        "find out what killed it: the machine's log, a scheduler; leave the node out (slurm.exclude: NAME)",
    ),
    Reason.STORAGE: KnownReason(
        "disk-full",
        "no space was left",
        "free space (`worldsize prune`), or another WORLDSIZE_HOME",
    ),
    Reason.TIME_LIMIT: KnownReason(
        "time-limit", "it reached its time limit", "ask for more time, or continue from a checkpoint"
    ),
    Reason.PREEMPTED: KnownReason(
        "preempted",
        "the scheduler took its nodes for a job that goes first",
        "run it again from its checkpoint; `worldsize requeue` lets the scheduler do so",
    ),
    Reason.CANCELLED_BY_USER: KnownReason("cancelled", "it was cancelled", "nothing, if you did"),
    Reason.HANG: KnownReason(
        "early-exit",
        "ranks ended with 0, and the others waited for them",
        "let all ranks make the same number of collective calls: batches that differ in number are the usual cause "
        "(drop_last=True, a DistributedSampler)",
    ),
    Reason.ENVIRONMENT: KnownReason(
        "node-not-ready",
        "a node could not be made ready",
        "fix what it names: a line of setup, the environment, a program or a file system of that node",
    ),
    Reason.SUBMIT_REJECTED: KnownReason(
        "rejected", "the compute refused the job", "its message states the requirement"
    ),
    Reason.DEPENDENCY: KnownReason(
        "dependency", "the run that it waited for did not succeed", "fix that run, then start this one again"
    ),
    Reason.LEFT_OUT: KnownReason("left-out", "a trial that the search did not need", "nothing"),
    Reason.OUT_OF_MEMORY: KnownReason(
        "host-memory",
        "memory was full",
        "fewer ranks or loader workers per node, a smaller batch, or more memory per node (slurm: mem)",
    ),
    Reason.SIGNAL: KnownReason(
        "killed", "it was killed by a signal", "the scheduler's accounting, or the node's log, may name the sender"
    ),
}
