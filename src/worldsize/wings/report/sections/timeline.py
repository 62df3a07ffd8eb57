"""The timeline: how long the run's attempts, its nodes and its ranks waited, started and ran."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from worldsize.cli.console import count_text
from worldsize.common.json_values import PARSE_ERRORS, is_number
from worldsize.common.named_tuple import Any, NamedTuple
from worldsize.plan.run_paths import RunPaths
from worldsize.service.runs.status import read_result
from worldsize.state.exit_records import ranks_start_time
from worldsize.state.records import Status
from worldsize.wings.report.facts import Child, Node, RunFacts
from worldsize.wings.report.text import time_text

_RANKS = 32
"""The largest number of ranks with a row each. In a larger run, only the ranks that failed have rows."""

_NODES = 32
"""The number of nodes above which the nodes' rows are folded."""

_ATTEMPTS = 32

WAITING, STARTING, RUNNING, STOPPING = "waiting", "starting", "running", "stopping"


class Moments(NamedTuple):
    """Times in Unix seconds; None if an event has not occurred, or its time is unknown."""

    submitted: float | None
    begun: float | None
    ranks_started: float | None
    first_value: float | None
    stopping: float | None
    ended: float | None


def timeline(facts: RunFacts) -> list[Child]:
    found = _moments(facts)
    pictures = facts.pictures
    whole = pictures.TimelineRow("run", tuple(_phases(pictures, found, facts.now)))
    nodes = _node_rows(facts, found)
    folded = nodes if len(nodes) > _NODES else []
    rows = [whole, *_attempt_rows(facts), *([] if folded else nodes), *_rank_rows(facts)]
    if not any(row.spans for row in rows):
        return []
    return [
        _drawn(pictures, "Timeline", rows),
        *(
            [pictures.details(count_text(len(folded), "node"), _drawn(pictures, "Nodes", [whole, *folded]))]
            * bool(folded)
        ),
        pictures.key_values(_moment_pairs(found)),
    ]


def _drawn(pictures: Any, title: str, rows: Sequence[Any]) -> Child:
    return pictures.scrolling(pictures.draw_timeline(title, [row for row in rows if row.spans]), title)


def _moments(facts: RunFacts) -> Moments:
    begun = [time for node in facts.nodes for time in _times(node, "agent_started")]
    started = [time for node in facts.nodes[:1] for time in _times(node, "ranks_started")]
    stopping = [time for node in facts.nodes for time in _times(node, "stopping")]
    return Moments(
        submitted=facts.plan.created if facts.plan and is_number(facts.plan.created) else None,
        begun=min(begun, default=facts.status.started),
        ranks_started=min(started, default=None),
        first_value=_first_value_time(facts),
        stopping=min(stopping, default=None),
        ended=facts.status.ended,
    )


def _times(node: Node, kind: str) -> list[float]:
    return [event["time"] for event in node.events if event.get("event") == kind and is_number(event.get("time"))]


def _first_value_time(facts: RunFacts) -> float | None:
    """Return the time, in Unix seconds, at which the run's scripts logged the first value of the latest attempt; None
    if they have logged none."""
    points = (point for each in facts.series for point in each.points if point.attempt == facts.paths.attempt)
    return min((point.time for point in points), default=None)


def _moment_pairs(found: Moments) -> list[tuple[str, Child]]:
    words = {
        "submitted": found.submitted,
        "first node there": found.begun,
        "ranks started": found.ranks_started,
        "first value logged": found.first_value,
        "began to stop": found.stopping,
        "ended": found.ended,
    }
    since = found.submitted
    return [(name, _moment_text(time, since)) for name, time in words.items() if time is not None]


def _moment_text(time: float, since: float | None) -> str:
    after = "" if since is None or time == since else f", after {time - since:.1f} s"
    return time_text(time) + after


def _phases(pictures: Any, found: Moments, now: float) -> Iterator[Any]:
    """Yield a span of the timeline for each phase of the run that has begun: waiting for nodes, starting, running,
    stopping. The last one ends at the end of the run, or at `now`."""
    end = found.ended or now
    moments = [(WAITING, found.submitted), (STARTING, found.begun), (RUNNING, found.ranks_started)]
    known = [(kind, time) for kind, time in [*moments, (STOPPING, found.stopping)] if time is not None]
    for (kind, start), (_, until) in zip(known, [*known[1:], ("", end)], strict=False):
        yield pictures.Span(kind, start, max(start, until))


def _attempt_rows(facts: RunFacts) -> list[Any]:
    """Return a row of the timeline for each attempt of the run before the latest one (at most 32), from the start of
    its ranks to its end."""
    rows = []
    for number in range(max(0, facts.paths.attempt - _ATTEMPTS), facts.paths.attempt):
        paths = RunPaths(facts.paths.root, number)
        status = _attempt_status(paths)
        start = ranks_start_time(paths) or (status.started if status else None)
        if status and start is not None and status.ended is not None:
            label = f"attempt {number}: {status.state}"
            rows.append(facts.pictures.TimelineRow(label, (facts.pictures.Span(RUNNING, start, status.ended),)))
    return rows


def _attempt_status(paths: RunPaths) -> Status | None:
    """Return the final status of the earlier attempt of `paths`, after which the run was requeued; None if it cannot be
    read."""
    earlier = RunPaths(paths.root, paths.attempt)
    earlier.result = paths.attempt_dir + "/result.json"
    try:
        return read_result(earlier)
    except (OSError, *PARSE_ERRORS):
        return None  # a damaged file of an earlier attempt contains nothing to show


def _node_rows(facts: RunFacts, found: Moments) -> list[Any]:
    if len(facts.nodes) < 2:
        return []
    rows = []
    for node in facts.nodes:
        begun, started = _times(node, "agent_started")[:1], _times(node, "ranks_started")[:1]
        end = node.exit.ended if node.exit else found.ended or facts.now
        known = [*((STARTING, time) for time in begun), *((RUNNING, time) for time in started)]
        spans = [
            facts.pictures.Span(kind, start, max(start, until))
            for (kind, start), until in zip(known, [*(time for _, time in known[1:]), end], strict=False)
        ]
        rows.append(facts.pictures.TimelineRow(f"node {node.node_rank} {node.host}".strip(), tuple(spans)))
    return rows


def _rank_rows(facts: RunFacts) -> list[Any]:
    exits = facts.rank_exits()
    shown: Sequence[int] = sorted(exits) if len(exits) <= _RANKS else facts.failed_ranks()[:_RANKS]
    ended = [exits[rank] for rank in shown if rank in exits]
    return [
        facts.pictures.TimelineRow(
            f"rank {each.rank}: {'stopped' if each.stopped else f'exit code {each.code}'}",
            (facts.pictures.Span(RUNNING, each.started, max(each.started, each.ended)),),
        )
        for each in ended
    ]
