"""How long a healthy program is slow: a multiple of the limit of whoever watches it, and never more than that."""

from __future__ import annotations

import random
import time
from collections.abc import Iterator

from ranks import words

DURATION: float = words.limit * words.times * (0.9 + 0.1 * random.Random(words.seed).random())
SEED: int = words.seed
SLOW_AT: int = 1 + SEED % 3
"""The step after which it is slow."""

STEPS = SLOW_AT + 3


def until_over(duration: float = DURATION) -> Iterator[int]:
    """0, 1, … until the slow phase is over."""
    end = time.monotonic() + duration
    number = 0
    while time.monotonic() < end:
        yield number
        number += 1
