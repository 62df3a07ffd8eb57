"""Selection of the rows of a check, and of the probes and stages that they need.

Pure. Standard library only: travels inside agent.pyz (Python >= 3.8).
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from worldsize.common.named_tuple import NamedTuple
from worldsize.wings.checks.agent.node_checks import NODE_CHECKS, NodeCheck
from worldsize.wings.checks.agent.node_context import CHEAP
from worldsize.wings.checks.agent.stage_table import STAGES, StageEntry


class Selection(NamedTuple):
    """The selected rows of a node check: those whose ids are in `only`, or all rows of `mode` ("cheap" or "full") if
    `only` is empty."""

    mode: str
    only: Sequence[str] = ()

    def wants(self, id: str) -> bool:
        """Return whether the node check's row with this id is selected: `only` contains it or is empty."""
        return not self.only or id in self.only

    def stages(self) -> list[StageEntry]:
        """Return the stages of the node check to run, in the order of the table: those with a selected row, and the
        stages whose answers these need. A cheap check has only cheap stages."""
        found = [entry for entry in STAGES if entry.cheap or self.mode != CHEAP]
        wanted = [entry for entry in found if any(map(self.wants, entry.ids))]
        needed = {name for entry in wanted for name in entry.needs}
        return [entry for entry in found if entry in wanted or entry.module in needed]

    def probes(self) -> list[NodeCheck]:
        """Return the probes of the node check to execute, in the order of the table: those with a selected row, and
        those whose facts a selected stage reads. A cheap check has only cheap probes."""
        facts = {name for entry in self.stages() for name in entry.reads}
        found = [check for check in NODE_CHECKS if check.cheap or self.mode != CHEAP]
        return [check for check in found if check.module in facts or any(map(self.wants, check.ids))]


def row_ids() -> list[str]:
    """Return the ids of all rows that a node check can report, such as `network.port`, in the order of the checks. The
    last one is "node"."""
    found: Iterable[str] = (id for entry in (*NODE_CHECKS, *STAGES) for id in entry.ids)
    return list(dict.fromkeys((*found, "node")))
