"""The summary of a run: its state, size and times, the user who started it, the command line, and how efficiently it
used its resources."""

from __future__ import annotations

import shlex
from collections.abc import Iterator

from worldsize.cli.console import count_text, duration_text, rehearsal_text
from worldsize.cli.runs.wait_and_usage import usage_text
from worldsize.errors import WorldsizeError
from worldsize.plan.plan import Plan
from worldsize.state.records import RunState
from worldsize.wings.report.facts import Child, RunFacts
from worldsize.wings.report.text import shorten, time_text, value_text

_WORDS = 4000
_CLASSES = {RunState.SUCCEEDED: "good", RunState.FAILED: "bad", RunState.LOST: "bad", RunState.CANCELLED: "warning"}


def state_element(pictures: Child, state: str) -> Child:
    """Return an element of the report page with the name of the run state `state`. Its class shows whether the state is
    good."""
    return pictures.element("strong", state, class_=_CLASSES.get(state, "muted"))


def head(facts: RunFacts) -> list[Child]:
    return [facts.pictures.key_values([pair for pair in _pairs(facts) if pair[1]])]


def _pairs(facts: RunFacts) -> Iterator[tuple[str, Child]]:
    run, status, plan, record = facts.run, facts.status, facts.plan, facts.record
    yield "state", state_element(facts.pictures, status.state)
    yield "reason", value_text(status.reason)
    yield "what is known", "" if status.final else value_text(status.message)
    yield "exit code", value_text(status.exit_code)
    yield "run", run.id
    if plan:
        yield "name", value_text(plan.name)
        yield "element", _element_text(plan)
        yield "size", _size_text(plan)
        yield "compute", value_text(plan.compute)
        yield "submitted", time_text(plan.created)
    yield "started", time_text(status.started)
    yield "ended", time_text(status.ended)
    yield "ran for", _took_text(facts)
    yield "attempt", str(run.paths.attempt) if run.paths.attempt else ""
    yield "by", " on ".join(filter(None, (value_text(record.get("user")), value_text(record.get("host")))))
    yield "directory at that time", value_text(record.get("cwd"))
    yield "words typed", _typed_text(facts)
    yield "worldsize", value_text(record.get("worldsize"))
    yield "run directory", run.directory
    yield "page made", time_text(facts.now) + ("" if status.final else ", when the run had not ended")


def _size_text(plan: Plan) -> str:
    nodes, ranks = count_text(len(plan.nodes), "node"), count_text(plan.world_size, "rank")
    return f"{nodes}, {ranks}{rehearsal_text(plan)}"


def _element_text(plan: Plan) -> str:
    return f"{plan.array.element} of {plan.array.elements}, of {plan.array.run_id}" if plan.array else ""


def _took_text(facts: RunFacts) -> str:
    started, ended = facts.status.started, facts.status.ended or facts.now
    return "" if started is None else duration_text(max(0.0, ended - started))


def _typed_text(facts: RunFacts) -> str:
    words = facts.record.get("argv")
    if not isinstance(words, list):
        return ""
    return shorten(facts.mask(shlex.join(map(str, words[:1000]))), _WORDS)


def efficiency(facts: RunFacts) -> list[Child]:
    """Render the lines of the report page about how efficiently the run used its resources, and about the usage that
    the compute has recorded."""
    lines = list(facts.metrics.efficiency_lines(facts.run, facts.status)) if facts.metrics else []
    used = _usage_text(facts)
    lines += ["used " + used] if used else []
    return [facts.pictures.element("p", line) for line in lines]


def _usage_text(facts: RunFacts) -> str:
    try:
        return usage_text(facts.run.usage([facts.status]))
    except WorldsizeError:
        return ""  # a compute that cannot be reached reports no usage
