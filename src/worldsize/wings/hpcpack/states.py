"""The states that HPC Pack gives a job, a task or a node, and their meaning for a run, in one table each.

The words are those of the enumerations JobState, TaskState and NodeState. An unknown word is phase "unknown", never a
success.
"""

from __future__ import annotations

from typing import NamedTuple


class HpcPackState(NamedTuple):
    """The meaning of a job's state.

    phase   "queued" | "running" | "ended" | "unknown", as in an observation
    words   for people, after "it "
    stuck   the job waits, and will not start without action by a person
    ending  its ranks have ended, or are about to end
    """

    phase: str
    words: str
    stuck: bool = False
    ending: bool = False


JOBS = {
    "Configuring": HpcPackState("queued", "is not in the queue: it is being configured", stuck=True),
    "Submitted": HpcPackState("queued", "was submitted"),
    "Validating": HpcPackState("queued", "is being validated"),
    "ExternalValidation": HpcPackState("queued", "is being validated by the cluster's own filter"),
    "Queued": HpcPackState("queued", "waits"),
    "Running": HpcPackState("running", "runs"),
    "Finishing": HpcPackState("running", "is ending", ending=True),
    "Finished": HpcPackState("ended", "finished"),
    "Failed": HpcPackState("ended", "failed"),
    "Canceling": HpcPackState("running", "is being cancelled", ending=True),
    "Canceled": HpcPackState("ended", "was cancelled"),
}

ACCEPTED_STATES = ("Queued", "Running", "Finishing", "Finished", "Canceling", "Canceled")
"""States that only a job that passed validation can be in."""

ENDED_TASK_STATES = ("Finished", "Failed", "Canceled")

NODES = {
    "Online": "",
    "Offline": "an administrator took it offline",
    "Draining": "it is being taken offline, once its tasks have ended",
    "Unknown": "it is being added to the cluster",
    "Provisioning": "it is being set up",
    "Starting": "it is starting",
    "Stopping": "it is stopping",
    "Rejected": "it was rejected from the cluster",
    "Removing": "it is being removed from the cluster",
    "NotDeployed": "it is not deployed",
}
"""The reason why a node starts no tasks, by its state; "" if it starts tasks."""


def state_of(word: str) -> HpcPackState:
    """Return the meaning of the state that HPC Pack gives a job, ignoring case; phase "unknown" for a word that the
    table JOBS does not contain."""
    known = {name.lower(): state for name, state in JOBS.items()}.get(word.strip().lower())
    return known or HpcPackState("unknown", "is in state {}, which is unknown to this release".format(word or "?"))


def unusable_reason(state: str, health: str) -> str:
    """Return the reason why HPC Pack starts no task on a node, from the node's state and health; "" if the node accepts
    tasks."""
    named = {name.lower(): why for name, why in NODES.items()}
    why = named.get(state.lower(), "it is {}".format(state or "in no known state"))
    if why:
        return why
    unwell = {"error": "the head node cannot reach it, or it is broken", "unapproved": "it is not approved yet"}
    return unwell.get(health.lower(), "")
