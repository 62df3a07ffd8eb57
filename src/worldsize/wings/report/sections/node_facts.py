"""The hardware of the nodes, and the software that their ranks find installed: one table each for all nodes."""

from __future__ import annotations

from worldsize.service.providers import find_provider
from worldsize.wings.report.facts import Child, RunFacts
from worldsize.wings.report.text import value_text

_LATER = "As of this page: the run was over before its nodes were examined."


def node_facts(facts: RunFacts) -> list[Child]:
    found = find_provider("facts")
    if found is None:
        return []
    nodes = found.read_facts(facts.paths)
    tables = (("Hardware", found.hardware_table(nodes)), ("Software", found.software_table(nodes)))
    children = [child for title, rows in tables if rows for child in _table(facts, title, rows)]
    if children and not found.recorded_facts(facts.paths):
        children.insert(0, facts.pictures.element("p", _LATER, class_="muted"))
    return children


def _table(facts: RunFacts, title: str, rows: tuple[tuple[str, str], ...]) -> list[Child]:
    pairs = [(value_text(name), facts.mask(value_text(text))) for name, text in rows]
    return [facts.pictures.element("h3", title), facts.pictures.key_values(pairs)]
