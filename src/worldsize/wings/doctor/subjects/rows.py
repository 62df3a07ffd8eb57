"""The rows of the doctor's screen. All functions are pure."""

from __future__ import annotations

from worldsize.state.check_rows import BAD, OK, UNKNOWN, WARNING, CheckRow
from worldsize.wings.doctor.programs import Answer


def yes(name: str, what: str, value: str) -> CheckRow:
    return CheckRow("", name, what, value, OK)


def no(name: str, what: str, value: str, fix: str, needed: bool = False) -> CheckRow:
    """Return the row of something that is not here, with its `fix`. It is bad if it is `needed`: runs here, or a
    configured compute, do not work without it."""
    return CheckRow("", name, what, value, BAD if needed else WARNING, fix)


def unknown(name: str, what: str, value: str, why: str = "") -> CheckRow:
    return CheckRow("", name, what, value, UNKNOWN, why)


def shown_version(answer: Answer) -> str:
    """Return the first line that a program printed about its version, and its path."""
    return f"{answer.line} ({answer.path})" if answer.line else answer.path
