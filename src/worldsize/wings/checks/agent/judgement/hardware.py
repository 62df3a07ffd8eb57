"""A place for what compares the nodes' hardware.

Standard library only: travels inside agent.pyz (Python >= 3.8).
"""

from __future__ import annotations

from collections.abc import Sequence

from worldsize.wings.checks.agent.cluster import CheckedNode
from worldsize.wings.checks.agent.rows import CheckRow


def hardware_rows(nodes: Sequence[CheckedNode]) -> Sequence[CheckRow]:
    """No rows."""
    return ()
