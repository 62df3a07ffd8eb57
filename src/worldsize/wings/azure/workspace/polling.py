"""How often the service is asked: often while a job is young, seldom when it has run for long. Pure."""

from __future__ import annotations

import math

_SHORTEST, _LONGEST = 2.0, 60.0
_MIDDLE, _WIDTH = 300.0, 60.0
"""Seconds of age at which the pause is halfway, and over which it changes."""


def pause_seconds(age: float) -> float:
    """Seconds until the next look at a job whose state is `age` seconds old: a sigmoid from 2 to 60."""
    return _SHORTEST + (_LONGEST - _SHORTEST) / (1.0 + math.exp((_MIDDLE - max(age, 0.0)) / _WIDTH))
