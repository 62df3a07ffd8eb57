"""The log of a run that its scheduler may start again: one attempt after the other."""

from __future__ import annotations

from collections.abc import Callable

from worldsize.cli.output import say
from worldsize.plan.paths import RunPaths
from worldsize.plan.values import Protocol
from worldsize.service.run import Run


class Reader(Protocol):
    def poll(self) -> bool:
        """Show what is new; whether there was something."""

    def finish(self) -> None:
        """Show the rest."""


class Attempts:
    """A reader of the run's latest attempt, whichever that is by then; `make` gives that of one attempt."""

    def __init__(self, run: Run, make: Callable[[RunPaths], Reader]) -> None:
        self._run = run
        self._make = make
        self._attempt = run.paths.attempt
        self._reader = make(run.paths)

    def poll(self) -> bool:
        self._go_on()
        return self._reader.poll()

    def finish(self) -> None:
        self._go_on()
        self._reader.finish()

    def _go_on(self) -> None:
        """To an attempt that has begun since, and may have ended."""
        if self._run.paths.attempt != self._attempt:
            self._reader.finish()
            self._attempt = self._run.paths.attempt
            say("run %s was started again: attempt %d" % (self._run.id, self._attempt))
            self._reader = self._make(self._run.paths)
