"""News while a run is prepared: notices, and at a terminal one line that says how far it is."""

from __future__ import annotations

import time

from worldsize.cli.output import say_for_now, say_message
from worldsize.service.request import Progress

_PATIENCE = 0.4
_EVERY = 0.1


class Notices(Progress):
    def notice(self, text: str) -> None:
        say_message("notice: " + text)

    def done(self) -> None:
        """Nothing of what was shown for the moment is left."""


class Ticker(Notices):
    """The line appears when preparing takes longer than a person would wait in silence."""

    def __init__(self) -> None:
        self._next = time.monotonic() + _PATIENCE
        self._shown = False

    def notice(self, text: str) -> None:
        self.done()
        super().notice(text)

    def step(self, what: str, done: int, total: int) -> None:
        now = time.monotonic()
        if now < self._next:
            return
        self._next = now + _EVERY
        self._shown = True
        text = "%s: %s files" % (what, "%d of %d" % (done, total) if total else "%d" % done)
        say_for_now(text)

    def doing(self, what: str) -> None:
        now = time.monotonic()
        if now < self._next:
            return
        self._next = now + _EVERY
        self._shown = True
        say_for_now(what)

    def transfer(self, what: str, done: int, total: int) -> None:
        now = time.monotonic()
        if now < self._next:
            return
        from worldsize.environment.keeping import bytes_text

        self._next = now + _EVERY
        self._shown = True
        text = "%s: %s of %s" % (what, bytes_text(done), bytes_text(total)) if total else what
        say_for_now(text)

    def done(self) -> None:
        if self._shown:
            self._shown = False
            say_for_now()
