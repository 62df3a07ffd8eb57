"""The data that a probe or a measurement has about its node and about the job's requests.

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
    """A node of a check.

    node_rank  its rank among the `nodes` nodes
    host       its own name for itself
    label      its name in rows
    run_dir    the path of the run's directory on this node
    environ    the environment of ranks, without the job's secrets
    asked      what the job requests of each node (client: `asked.py`); a key that is absent is not known
    mode       CHEAP or FULL
    root       the directory that contains `/proc`, `/sys`, `/dev` and `/etc`; a directory of their own in tests
    attempt    the attempt of the run that the check belongs to
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
        """Return the path of a file of the node, below `root`, from its parts: /proc/meminfo for `path("proc",
        "meminfo")`."""
        return os.path.join(self.root, *names)

    def row(self, id: str, what: str, value: str, verdict: str, hint: str = "") -> CheckRow:
        """Return a row of the node check's table for this node, as a CheckRow with the given id, subject, value,
        verdict and hint."""
        return CheckRow(self.label, id, what, value, verdict, hint)


class ProbeResult(NamedTuple):
    """The result of a probe: its rows, and facts (JSON values) for the comparison of the nodes (`judgement/`)."""

    rows: tuple[CheckRow, ...] = ()
    facts: Mapping[str, Any] = {}
