"""Findings of preflight checks, as text and as one error."""

from __future__ import annotations

from collections.abc import Sequence

from worldsize.compute.base import CheckResult
from worldsize.errors import PreflightError


def format_notice(notice: CheckResult) -> str:
    """Return the finding of a preflight check in one line: the place, the problem, and the hint in brackets."""
    text = f"{notice.where}: {notice.what}" if notice.where else notice.what
    return f"{text} ({notice.hint})" if notice.hint else text


def problems_error(errors: Sequence[CheckResult]) -> PreflightError:
    """Return one PreflightError that lists all findings in `errors`, which must not be empty. Its attribute `findings`
    contains them."""
    first = errors[0]
    problem = PreflightError(first.what, first.where, first.hint)
    if len(errors) > 1:
        problem = PreflightError("\n  ".join([f"{len(errors)} problems:", *map(format_notice, errors)]))
    problem.findings = tuple(errors)
    return problem
