"""News while a run is prepared: notices, and at a terminal one line that says how far it is."""

from __future__ import annotations

import os
import sys
import time

from worldsize.cli.shared import clean, say
from worldsize.service.request import Progress

_PATIENCE = 0.4
_EVERY = 0.1
_CLEAR = "\r\x1b[K"


class Notices(Progress):
    def notice(self, text: str) -> None:
        say("notice: " + clean(text))

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
        sys.stderr.write(_CLEAR + text[: _columns() - 1])
        sys.stderr.flush()

    def doing(self, what: str) -> None:
        now = time.monotonic()
        if now < self._next:
            return
        self._next = now + _EVERY
        self._shown = True
        sys.stderr.write(_CLEAR + clean(what)[: _columns() - 1])
        sys.stderr.flush()

    def transfer(self, what: str, done: int, total: int) -> None:
        now = time.monotonic()
        if now < self._next:
            return
        from worldsize.environment.keeping import bytes_text

        self._next = now + _EVERY
        self._shown = True
        text = "%s: %s of %s" % (what, bytes_text(done), bytes_text(total)) if total else what
        sys.stderr.write(_CLEAR + text[: _columns() - 1])
        sys.stderr.flush()

    def done(self) -> None:
        if self._shown:
            self._shown = False
            sys.stderr.write(_CLEAR)
            sys.stderr.flush()


def _columns() -> int:
    try:
        return os.get_terminal_size(2).columns or 80
    except OSError:
        return 80
