"""How long a check may take. Standard library only: travels inside agent.pyz (Python >= 3.8)."""

from __future__ import annotations

from worldsize.wings.checks.agent.node_context import CHEAP

AGENT_MARGIN = 10.0
"""Seconds beyond its limit after which an agent goes on without the check."""

TOLD_LATE = 1.0
"""Seconds that the answer of a node in time may be on its way to the head."""


def overall_limit(mode: str, nodes: int) -> float:
    """Seconds from the start of a check to its end, whatever hangs: what is not done by then is unknown. Only a whole
    check starts programs that import frameworks, which may take a minute from a file server."""
    return (30.0 if mode == CHEAP else 180.0) + nodes / 32
