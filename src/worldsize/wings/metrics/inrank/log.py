"""For scripts: `worldsize.log(step=…, loss=…)`.

Standard library only; runs in whatever Python the rank has.
"""

from __future__ import annotations

from typing import Any, Optional


def log(step: Optional[int] = None, **values: Any) -> None:
    """Log values of this rank at a step of its training. Never raises, and never waits for a disk or a GPU."""
