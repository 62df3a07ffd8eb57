"""The pauses between queries of the service: short while a job is young, long when it has run for long. Pure."""

from __future__ import annotations

import math

_SHORTEST, _LONGEST = 2.0, 60.0
_MIDDLE, _WIDTH = 300.0, 60.0
"""The age in seconds at which the pause is halfway, and the width in seconds of the change around it."""


def pause_seconds(age: float) -> float:
    """Return the seconds until a job on Azure ML is queried again when its state is `age` seconds old: a sigmoid from 2
    to 60."""
    return _SHORTEST + (_LONGEST - _SHORTEST) / (1.0 + math.exp((_MIDDLE - max(age, 0.0)) / _WIDTH))
