"""The two tables of what a benchmark ran on, hardware and software, as the guides have them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from worldsize.service.providers import find_provider
from worldsize.state.node_facts import NodeFacts, Rows


def hardware_table(nodes: Sequence[NodeFacts]) -> Rows:
    """Return the nodes and their hardware: one value where all are equal, else who has which. Empty where nothing is
    known."""
    facts = find_provider("facts")
    rows: Rows = facts.hardware_table(nodes) if facts else ()
    return rows


def software_table(nodes: Sequence[NodeFacts], reported: Mapping[str, str]) -> Rows:
    """Return the same of their software. What ranks have `reported`, by the names of rows, counts: they know what they
    have loaded."""
    facts = find_provider("facts")
    rows: Rows = facts.software_table(nodes, reported) if facts else tuple(reported.items())
    return rows
