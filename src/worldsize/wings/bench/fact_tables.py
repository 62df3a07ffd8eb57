"""The two tables of the hardware and the software that a benchmark ran on, in the form that the guides use."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from worldsize.service.providers import find_provider
from worldsize.state.node_facts import NodeFacts, Rows


def hardware_table(nodes: Sequence[NodeFacts]) -> Rows:
    """Return the table, as pairs of a name and a value, of the hardware of the `nodes` that a benchmark ran on: one
    value if all nodes are equal, otherwise the value of each node. Empty if nothing is known."""
    facts = find_provider("facts")
    rows: Rows = facts.hardware_table(nodes) if facts else ()
    return rows


def software_table(nodes: Sequence[NodeFacts], reported: Mapping[str, str]) -> Rows:
    """Return the table, as pairs of a name and a value, of the software of the `nodes` that a benchmark ran on. The
    values that ranks have `reported`, by the names of rows, take precedence, because the ranks know which software they
    have loaded."""
    facts = find_provider("facts")
    rows: Rows = facts.software_table(nodes, reported) if facts else tuple(reported.items())
    return rows
