"""Time limits: parsers of Slurm's notation, and the limit that is passed to a scheduler.

Standard library only: travels inside agent.pyz (Python >= 3.8).
"""

from __future__ import annotations

from worldsize.common.numbers import parse_digits
from worldsize.plan.plan import Plan

_MARGIN = 60.0


def limit_seconds(text: str | None) -> float | None:
    """Parse a time limit in Slurm's notation, `30` (minutes), `30:00`, `2:00:00`, `1-12`, `1-12:30` or `1-12:30:00`,
    and return it in seconds; None for no limit. Raise ValueError if the text is no time limit."""
    value = (text or "").strip()
    if value.lower() in ("", "0", "-1", "infinite", "unlimited"):
        return None
    days, dash, clock = value.rpartition("-")
    parts = [parse_digits(part) for part in [*([days] if dash else []), *clock.split(":")]]
    numbers = [part for part in parts if part is not None]
    if len(numbers) < len(parts) or len(numbers) > 3 + bool(dash):
        raise ValueError(f"{text!r:.40} is not a time limit")
    if not dash:
        numbers = [0, *(numbers if len(numbers) == 3 else [0, *numbers])]
    number_of_days, hours, minutes, seconds = [*numbers, 0, 0][:4]
    return float(((number_of_days * 24 + hours) * 60 + minutes) * 60 + seconds)


def known_limit_seconds(text: str | None) -> float | None:
    """Return the seconds of a time limit as `limit_seconds` does; None also for a text that is no time limit, which
    Slurm itself reports."""
    try:
        return limit_seconds(text)
    except ValueError:
        return None


def scheduler_seconds(plan: Plan) -> float | None:
    """Return the time limit, in seconds, that is passed to a scheduler for a run of this plan; None if the plan has
    none. It is later than the run's own limit, so that the agent can end the run in time and report it."""
    return None if plan.timeout is None else plan.timeout + plan.grace + _MARGIN
