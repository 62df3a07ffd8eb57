"""The slow phase that was asked for."""

from __future__ import annotations

from ranks import words

from phases import computing, moving, waiting


def slow_phase() -> None:
    {**computing.PHASES, **moving.PHASES, **waiting.PHASES}[words.phase]()
