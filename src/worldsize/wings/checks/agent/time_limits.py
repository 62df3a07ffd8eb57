"""Time limits of a check. Standard library only: travels inside agent.pyz (Python >= 3.8)."""

from __future__ import annotations

from worldsize.wings.checks.agent.node_context import CHEAP

AGENT_MARGIN = 10.0
"""Seconds beyond the check's limit after which an agent continues without the check."""

TOLD_LATE = 1.0
"""Seconds that the answer of a punctual node may take on its way to the head."""


def overall_limit(mode: str, nodes: int) -> float:
    """Return the seconds from the start of a node check of this mode and number of nodes to its end, even if something
    hangs. Rows that are not done by then are unknown. Only a full check starts programs that import frameworks, which
    may take a minute from a file server."""
    return (30.0 if mode == CHEAP else 180.0) + nodes / 32
