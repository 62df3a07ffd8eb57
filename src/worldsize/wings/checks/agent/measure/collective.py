"""The part of one node in one all-reduce and one all-gather over all ranks: its ranks, with the job's Python and its
environment.

Standard library only: travels inside agent.pyz (Python >= 3.8).
"""

from __future__ import annotations

from collections.abc import Mapping

from worldsize.common.named_tuple import Any
from worldsize.wings.checks.agent.node_context import NodeContext
from worldsize.wings.checks.agent.programs.rank_group import reports_of_ranks
from worldsize.wings.checks.agent.programs.torch_programs import COLLECTIVE


def run(context: NodeContext, order: Mapping[str, Any]) -> dict[str, Any]:
    """Execute this node's part of the check's stage `collective`: run its ranks as the head's `order` requests and
    return their reports, as `ranks`. Raise OSError if Python cannot be started."""
    return {"ranks": reports_of_ranks(context, order, COLLECTIVE, "collective")}
