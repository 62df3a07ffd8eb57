"""Time limits as Slurm writes them.

Standard library only: travels inside agent.pyz (Python >= 3.8).
"""

from __future__ import annotations


def limit_seconds(text: str | None) -> float | None:
    """`30` (minutes), `30:00`, `2:00:00`, `1-12`, `1-12:30`, `1-12:30:00`; None for no limit. Raises ValueError."""
    value = (text or "").strip()
    if value.lower() in ("", "0", "-1", "infinite", "unlimited"):
        return None
    days, dash, clock = value.rpartition("-")
    numbers = [int(part) for part in clock.split(":")]
    if len(numbers) > 3:
        raise ValueError("%.40r is no time limit" % text)
    if dash:
        hours, minutes, seconds = [*numbers, 0, 0][:3]
    elif len(numbers) == 3:
        hours, minutes, seconds = numbers
    else:
        hours, (minutes, seconds) = 0, [*numbers, 0][:2]
    return float(((int(days or 0) * 24 + hours) * 60 + minutes) * 60 + seconds)
