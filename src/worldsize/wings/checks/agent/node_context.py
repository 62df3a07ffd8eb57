"""What a probe or a measurement may know of its node, and of what is asked of it.

Standard library only: travels inside agent.pyz (Python >= 3.8).
"""

from __future__ import annotations

import os
from collections.abc import Mapping

from worldsize.common.named_tuple import Any, NamedTuple
from worldsize.state.check_rows import CheckRow

CHEAP = "cheap"
FULL = "full"


class NodeContext(NamedTuple):
    """One node of a check.

    node_rank  which of the `nodes` it is
    host       its own name for itself
    label      what rows call it
    run_dir    the run's directory, as this node calls it
    environ    what ranks will have: without the job's secrets
    asked      what the job asks of each node (client: `asked.py`); a key that is absent is not known
    mode       CHEAP or FULL
    root       where `/proc`, `/sys`, `/dev` and `/etc` lie: a test's own tree
    attempt    which attempt of the run it belongs to
    """

    node_rank: int
    nodes: int
    host: str
    label: str
    run_dir: str
    environ: Mapping[str, str]
    asked: Mapping[str, Any] = {}
    mode: str = FULL
    root: str = "/"
    attempt: int = 0

    def path(self, *names: str) -> str:
        """Return a path of the machine: `path("proc", "meminfo")`."""
        return os.path.join(self.root, *names)

    def row(self, id: str, what: str, value: str, verdict: str, hint: str = "") -> CheckRow:
        """Return a row of this node."""
        return CheckRow(self.label, id, what, value, verdict, hint)


class ProbeResult(NamedTuple):
    """What a probe found: its rows, and facts (JSON values) for what compares the nodes (`judgement/`)."""

    rows: tuple[CheckRow, ...] = ()
    facts: Mapping[str, Any] = {}
