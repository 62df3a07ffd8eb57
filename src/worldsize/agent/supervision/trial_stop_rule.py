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
        """Prepare everything for the ranks. Return the failure that prevents their start; None if they can start."""

    def start(self, now: float) -> None:
        """Record that the ranks start `now`."""

    def deadline(self) -> float | None:
        """Return the time of the next action of `tick`; None while none is planned."""

    def tick(self, now: float) -> Verdict | None:
        """Return the verdict by which the run must end now; None while it continues."""

    def conclude(self, found: Verdict | None) -> Verdict | None:
        """Return the verdict on the run. `found` is the supervisor's verdict."""

    def write_record(self, failure: Failure | None) -> None:
        """Write how the trial has ended, before the exit record is written. Not called for a run that is cancelled."""

    def write_outputs(self) -> None:
        """Write the outputs of the search, once the exit record is written."""
