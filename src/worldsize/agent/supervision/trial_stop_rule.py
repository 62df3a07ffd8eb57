"""The protocol of the rule that decides whether a run starts and when it is over, in addition to the run's ranks. A
wing implements the rule, if the plan's options name it."""

from __future__ import annotations

from worldsize.agent.outcome.verdict import Verdict
from worldsize.common.named_tuple import Protocol
from worldsize.state.records import Failure


class StopRule(Protocol):
    """The rule by which a trial ends early, a part of the head's supervisor. Its methods are called in this order. The
    methods that write never raise."""

    def prepare(self) -> Failure | None:
        """Prepare everything that the trial's ranks need. Return the failure that prevents the start of the ranks; None
        if they can start."""

    def start(self, now: float) -> None:
        """Record that the trial's ranks start at the time `now` (monotonic clock)."""

    def deadline(self) -> float | None:
        """Return the time of the next action of this rule's `tick`, in seconds of the monotonic clock; None while none
        is planned."""

    def tick(self, now: float) -> Verdict | None:
        """Check at `now` whether the trial must end. Return the verdict by which its run must end; None while it
        continues."""

    def conclude(self, found: Verdict | None) -> Verdict | None:
        """Return the final verdict on the trial's run, given the supervisor's verdict `found`; None if the run
        succeeded."""

    def write_record(self, failure: Failure | None) -> None:
        """Write the record of how the trial has ended, before the agent's exit record is written. `failure` is the
        run's failure, if any. Not called for a run that is cancelled."""

    def write_outputs(self) -> None:
        """Write the outputs of the whole search (the array) that this trial belongs to, once the agent's exit record is
        written."""
