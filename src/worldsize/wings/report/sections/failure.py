"""The sections about a run's failure, and about the warnings and notices of the run and its nodes."""

from __future__ import annotations

from worldsize.cli.output import lines_of
from worldsize.cli.runs.notices import notice_lines
from worldsize.common.json_values import PARSE_ERRORS
from worldsize.errors import WorldsizeError
from worldsize.service.runs.failure_screen import run_failure_lines
from worldsize.service.runs.run import Run
from worldsize.state.records import Status
from worldsize.wings.report.facts import Child, RunFacts
from worldsize.wings.report.text import value_text


def failure(facts: RunFacts) -> list[Child]:
    lines = failure_lines(facts.run, facts.status) if facts.status.final else []
    return [facts.pictures.element("pre", facts.mask("\n".join(lines)))] if lines else []


def failure_lines(run: Run, status: Status) -> list[str]:
    """Return the lines of a run's failure screen (why the run failed, and what to do). If one of its files cannot be
    read, return the message of `status` and the reason why no more is shown."""
    try:
        return run_failure_lines(run, status)
    except (WorldsizeError, OSError, *PARSE_ERRORS) as error:
        # Files of the run may be damaged: its status is still valid.
        return [*lines_of(status.message), "", f"More cannot be read: {error!s:.300}"]


def notices(facts: RunFacts) -> list[Child]:
    """Render the run's warnings, and the notices that its nodes have recorded, as a list for the report page, one line
    each; nothing if there are none."""
    warnings = ["warning: " + facts.mask(" ".join(lines_of(each.text))) for each in facts.status.warnings]
    events = [event for node in facts.nodes for event in node.events if event.get("event") == "notice"]
    said = notice_lines(list(dict.fromkeys(facts.mask(value_text(event.get("text"))) for event in events)))
    element = facts.pictures.element
    lines = [*warnings, *said]
    return [element("ul", *(element("li", line) for line in lines))] if lines else []
