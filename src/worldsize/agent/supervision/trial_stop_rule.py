"""What decides, beside its ranks, whether a run starts and when it is over, if the plan's options name it: a wing's."""

from __future__ import annotations

from worldsize.agent.outcome.verdict import Verdict
from worldsize.common.named_tuple import Protocol
from worldsize.state.records import Failure


class StopRule(Protocol):
    """A part of the head's supervisor, which asks it in this order. What writes never raises."""

    def prepare(self) -> Failure | None:
        """Why the ranks are not to start; None where they can, for which all is ready."""

    def start(self, now: float) -> None:
        """The ranks start `now`."""

    def deadline(self) -> float | None:
        """When `tick` has something to do next; None while nothing is planned."""

    def tick(self, now: float) -> Verdict | None:
        """The verdict by which the run is to end, once it is."""

    def conclude(self, found: Verdict | None) -> Verdict | None:
        """The verdict on the run, where `found` is the supervisor's."""

    def write_record(self, failure: Failure | None) -> None:
        """Write how it has ended, before the exit record is written. Of a run that is cancelled nothing is."""

    def write_outputs(self) -> None:
        """Write what is made of it, once the exit record is there."""
