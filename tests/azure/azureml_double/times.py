"""Times and durations as the service writes them."""

from __future__ import annotations

import re
from datetime import datetime, timezone

_DURATION = re.compile(r"P(?:(\d+)D)?(?:T(?:(\d+)H)?(?:(\d+)M)?(?:(\d+(?:\.\d+)?)S)?)?")


def now() -> str:
    return datetime.now(timezone.utc).strftime("%Y-%m-%dT%H:%M:%S.%fZ")


def duration(text: str) -> float:
    """Seconds of an ISO 8601 duration of days and less. Raises ValueError if it is none."""
    found = _DURATION.fullmatch(text)
    if not found or not any(found.groups()):
        raise ValueError("no duration: %r" % text)
    return sum(float(part or 0) * size for part, size in zip(found.groups(), (86400, 3600, 60, 1), strict=True))
