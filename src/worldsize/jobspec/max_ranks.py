"""The largest world size that a job may ask for."""

from __future__ import annotations

MAX_RANKS = 1_000_000
"""No job has more ranks; a larger number is a slip of the keyboard."""
