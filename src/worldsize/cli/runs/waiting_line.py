"""One line at a terminal about a run that is waited for, and whose log is not shown."""

from __future__ import annotations

import sys
import time

from worldsize.cli.console import duration_text
from worldsize.cli.output import show_transient_line
from worldsize.state.records import Status

_EVERY = 0.5


class WaitingLine:
    """`what` stands in front: "check 20261127-…". `poll` and `take` are what `Run.follow` calls."""

    def __init__(self, what: str) -> None:
        self._what = what
        self._began = time.monotonic()
        self._next = self._began + _EVERY
        self._state = ""
        self._shown = False

    def take(self, statuses: list[Status]) -> None:
        """Keep what the latest look has found."""
        self._state = str(statuses[0].state)

    def poll(self) -> bool:
        """Show how far it is; nothing of it is news."""
        now = time.monotonic()
        if now >= self._next and sys.stderr.isatty():
            self._next, self._shown = now + _EVERY, True
            show_transient_line(f"{self._what} {self._state}, {duration_text(now - self._began)}")
        return False

    def clear(self) -> None:
        """Take the line away."""
        if self._shown:
            self._shown = False
            show_transient_line()
