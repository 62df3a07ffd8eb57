"""Questions at the terminal."""

from __future__ import annotations

import os
import sys

from worldsize.cli.output import show_question
from worldsize.errors import UsageError


def can_ask() -> bool:
    """Return whether a question can be read and answered: this process has a terminal, and is in its foreground."""
    if not (sys.stdin.isatty() and sys.stderr.isatty()):
        return False
    try:
        return os.tcgetpgrp(sys.stdin.fileno()) == os.getpgrp()
    except OSError:
        return False


def ask(question: str) -> bool:
    """Ask a question at the terminal. Return whether the answer is yes."""
    show_question(question + " [y/N] ")
    try:
        answer = sys.stdin.readline()
    except (OSError, UnicodeDecodeError):
        answer = ""
    return answer.strip().lower() in ("y", "yes")


def confirm(question: str, refusal: str, hint: str) -> None:
    """Ask a question at the terminal. Raise UsageError, with `refusal` and `hint`, if the answer is not yes."""
    if not ask(question):
        raise UsageError(refusal, None, hint)
