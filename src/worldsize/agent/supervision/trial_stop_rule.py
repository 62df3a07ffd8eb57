"""What decides, beside a run's ranks, whether it starts and when it is over, if the plan's options name it: a wing's
rule."""

from __future__ import annotations

from worldsize.agent.outcome.verdict import Verdict
from worldsize.common.named_tuple import Protocol
from worldsize.state.records import Failure


class StopRule(Protocol):
    """The rule by which a trial ends early, a part of the head's supervisor: its methods are called in this order.
    Those that write never raise."""

    def prepare(self) -> Failure | None:
        """Get all ready for the ranks; return why they are not to start, None where they can."""

    def start(self, now: float) -> None:
        """Note that the ranks start `now`."""

    def deadline(self) -> float | None:
        """When `tick` has something to do next; None while nothing is planned."""

    def tick(self, now: float) -> Verdict | None:
        """Return the verdict by which the run is to end now; None while it goes on."""

    def conclude(self, found: Verdict | None) -> Verdict | None:
        """Return the verdict on the run, where `found` is the supervisor's."""

    def write_record(self, failure: Failure | None) -> None:
        """Write how the trial has ended, before the exit record is written; nothing of a run that is cancelled."""

    def write_outputs(self) -> None:
        """Write the outputs of the search, once the exit record is there."""
