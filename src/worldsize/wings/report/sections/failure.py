"""Why the run failed; what speaks against its success; what its nodes said of themselves."""

from __future__ import annotations

from worldsize.cli.output import lines_of
from worldsize.cli.runs.notices import notice_lines, read_notices
from worldsize.service.runs.failure_screen import run_failure_lines
from worldsize.wings.report.facts import Child, RunFacts


def failure(facts: RunFacts) -> list[Child]:
    lines = run_failure_lines(facts.run, facts.status) if facts.status.final else []
    return [facts.pictures.element("pre", facts.mask("\n".join(lines)))] if lines else []


def notices(facts: RunFacts) -> list[Child]:
    """Warnings and notices, one line each."""
    warnings = ["warning: " + facts.mask(" ".join(lines_of(each.text))) for each in facts.status.warnings]
    said = notice_lines(read_notices(facts.paths, [node.node_rank for node in facts.nodes]))
    element = facts.pictures.element
    lines = [*warnings, *said]
    return [element("ul", *(element("li", line) for line in lines))] if lines else []
