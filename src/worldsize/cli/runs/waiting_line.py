"""A line at a terminal about a run that is waited for, and whose log is not shown."""

from __future__ import annotations

import sys
import time

from worldsize.cli.console import duration_text
from worldsize.cli.output import show_transient_line
from worldsize.state.records import Status

_EVERY = 0.5


class WaitingLine:
    """The line about the run, which begins with `what`: "check 20261127-…". `Run.follow` calls `poll` and `take`."""

    def __init__(self, what: str) -> None:
        self._what = what
        self._began = time.monotonic()
        self._next = self._began + _EVERY
        self._state = ""
        self._shown = False

    def take(self, statuses: list[Status]) -> None:
        """Keep the state of the run that the latest query of its status has found, for the line at the terminal."""
        self._state = str(statuses[0].state)

    def poll(self) -> bool:
        """Show the run's state and the elapsed time in the line at the terminal. Return False, because this is no new
        output of the run."""
        now = time.monotonic()
        if now >= self._next and sys.stderr.isatty():
            self._next, self._shown = now + _EVERY, True
            show_transient_line(f"{self._what} {self._state}, {duration_text(now - self._began)}")
        return False

    def clear(self) -> None:
        """Remove the line about the waited-for run from the terminal, if it is shown."""
        if self._shown:
            self._shown = False
            show_transient_line()
