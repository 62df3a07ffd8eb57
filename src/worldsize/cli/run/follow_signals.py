"""The keys and signals that end or leave a run, from its preparation to its end."""

from __future__ import annotations

import signal

from worldsize.cli.output import lines_of, report_from_handler
from worldsize.errors import WorldsizeError

TYPE_CHECKING = False
if TYPE_CHECKING:
    from types import FrameType

    from worldsize.service.runs.array import RunArray
    from worldsize.service.runs.run import Run

_IMPORTING = "<frozen importlib._bootstrap"
"""The beginning of the file names of the code that imports modules."""
_POSTPONED = 0.02
"""Seconds after which a cancel that arrived in the middle of an import is tried again."""


class DetachRequest(Exception):
    """A request of the user to leave the run, which continues. `code` is the exit code of this process."""

    def __init__(self, code: int) -> None:
        super().__init__()
        self.code = code


class FollowSignals:
    r"""Signal handlers while a run is submitted and followed. Ctrl-C cancels the run, a second one at once. Ctrl-\, a
    closing terminal and TERM leave the run running.

    While there is no run, each of these signals only ends this process. From `hold` on they wait, until `attach` names
    the run that they are for. A Ctrl-C in the middle of an import waits for its end: a cancel needs modules that may be
    incomplete then. Signals that were ignored when this process was started (nohup, a background job) stay ignored.
    """

    def __init__(self) -> None:
        self._run: Run | RunArray | None = None
        self._is_holding = False
        self._waiting = self._cancels = 0
        self._left: int | None = None
        self._following = False
        self._set_handler(signal.SIGINT, self._cancel)
        for number in (signal.SIGQUIT, signal.SIGHUP, signal.SIGTERM):
            self._set_handler(number, self._detach)

    def _set_handler(self, number: int, act: object) -> None:
        if signal.getsignal(number) != signal.SIG_IGN:
            signal.signal(number, act)  # type: ignore[arg-type]

    def hold(self) -> None:
        """Keep the signals that this process receives from now on for the run that is being submitted."""
        self._is_holding = True

    def attach(self, run: Run | RunArray) -> None:
        """Apply the signals that this process receives from now on, and those that were kept, to `run`: Ctrl-C cancels
        it."""
        self._is_holding, self._run = True, run
        self._cancel_waiting()

    def release(self) -> None:
        """Let signals end this process again, because there is no run any more that they could cancel or leave."""
        self._is_holding, self._run = False, None

    def _cancel_waiting(self, number: int = 0, frame: FrameType | None = None) -> None:
        """Cancel the run once for each Ctrl-C that has waited, unless a module is being imported."""
        if _is_importing(frame):
            return self._postpone()
        while self._waiting and self._run is not None:
            self._waiting -= 1
            self._cancel()

    def _postpone(self) -> None:
        signal.signal(signal.SIGALRM, self._cancel_waiting)
        signal.setitimer(signal.ITIMER_REAL, _POSTPONED)

    def _cancel(self, number: int = 0, frame: FrameType | None = None) -> None:
        if not self._is_holding:
            raise KeyboardInterrupt
        if self._run is None or _is_importing(frame):
            self._waiting += 1
            if self._run is not None:
                self._postpone()
            return
        self._cancels += 1
        if self._cancels > 2:
            return
        again = " (Ctrl-C again: at once)" if self._cancels == 1 else " at once"
        report_from_handler("", f"cancelling {self._run.id}{again}")
        try:
            self._run.cancel(now=self._cancels == 2)
        except WorldsizeError as error:
            self._cancels -= 1  # the next Ctrl-C repeats the request
            report_from_handler("", f"could not cancel {self._run.id}", *lines_of(f"worldsize: {error}"))

    def _detach(self, number: int, _: object) -> None:
        if not self._is_holding:
            raise SystemExit(128 + number)
        if self._left is None:
            self._left = 128 + number if number == signal.SIGTERM else 0
            if self._following:
                raise DetachRequest(self._left)

    @property
    def has_cancelled(self) -> bool:
        """True if a Ctrl-C has requested the end of the run, unless the request failed."""
        return self._cancels + self._waiting > 0

    def follow(self) -> None:
        r"""Raise DetachRequest from now on when a signal arrives by which the user leaves the run (Ctrl-\, a closing
        terminal, TERM); at once if one has arrived before."""
        self._following = True
        if self._left is not None:
            raise DetachRequest(self._left)


def _is_importing(frame: FrameType | None) -> bool:
    """Return whether the code that a signal has interrupted is part of an import."""
    while frame is not None:
        if frame.f_code.co_filename.startswith(_IMPORTING):
            return True
        frame = frame.f_back
    return False
