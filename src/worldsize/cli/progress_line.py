"""Messages while a run is prepared: notices, and at a terminal one line that shows the progress."""

from __future__ import annotations

import time

from worldsize.cli.output import report_message, show_transient_line
from worldsize.common.atomic_files import printable_text
from worldsize.common.numbers import bytes_text
from worldsize.service.request import Progress
from worldsize.trust.secrets import mask_text

_PATIENCE = 0.4
_EVERY = 0.1


class NoticePrinter(Progress):
    def show_notice(self, text: str) -> None:
        report_message("notice: " + text)

    def confirm_snapshot(self, directory: str, files: int, size: int) -> None:
        from worldsize.cli.questions import can_ask, confirm

        self.clear()
        hint = "--code DIR names the code's directory, and .amlignore the files to leave out"
        what = f"the code is {printable_text(directory)}: {files:,} files, {bytes_text(size)}"
        if can_ask():
            confirm(f"{what}. Copy all of it?", "nothing was started", hint)
        else:
            self.notice(f"{what} ({hint})", "code-location")

    def clear(self) -> None:
        """Do nothing: this printer of notices shows no transient progress line that would have to be removed."""


class ProgressLine(NoticePrinter):
    """The line that shows the progress. It appears if the preparation takes longer than a user would wait without a
    message."""

    def __init__(self) -> None:
        self._next = time.monotonic() + _PATIENCE
        self._shown = False

    def show_notice(self, text: str) -> None:
        self.clear()
        super().show_notice(text)

    def step(self, what: str, done: int, total: int) -> None:
        self._show("{}: {} files".format(what, f"{done} of {total}" if total else str(done)))

    def show_activity(self, what: str) -> None:
        self._show(what)

    def transfer(self, what: str, done: int, total: int) -> None:
        self._show(f"{what}: {bytes_text(done)} of {bytes_text(total)}" if total else what)

    def _show(self, text: str) -> None:
        if time.monotonic() < self._next:
            return
        self._next = time.monotonic() + _EVERY
        self._shown = True
        show_transient_line(mask_text(text))

    def clear(self) -> None:
        """Remove the transient progress line from the terminal, if one is shown."""
        if self._shown:
            self._shown = False
            show_transient_line()
