"""The events of a run with their times, in order, from the files of its client, its nodes' agents and its scheduler.

Each file has one writer. Times of nodes are converted to the head's clock where its offset was measured.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Sequence

from worldsize.agent.outcome.rank_failure import exception_text, read_error
from worldsize.common.atomic_files import read_object
from worldsize.common.json_values import is_number
from worldsize.common.named_tuple import Any, NamedTuple
from worldsize.common.numbers import ranks_text
from worldsize.plan.plan import Plan
from worldsize.plan.run_paths import RunPaths
from worldsize.service.runs.masks import text_masker, told_error_file
from worldsize.service.runs.start_failures import attempt_lines, slurm_time
from worldsize.state.clocks import offset_of_events
from worldsize.state.exit_records import read_events
from worldsize.state.notices import EVENT, HANG

CLIENT, SCHEDULER = "client", "scheduler"
_DEEPEST = 20
"""Number of levels of nested lists and objects that are shown."""


class RunEvent(NamedTuple):
    """An event in the life of a run.

    time    Unix seconds
    source  "client", "scheduler", or "node 3": the writer of the file that recorded it
    kind    a word for programs
    text    for people, in one line
    fields  the other values that the file contains about it
    """

    time: float
    source: str
    kind: str
    text: str
    fields: dict[str, Any]


def read_run_events(paths: RunPaths, plan: Plan | None) -> list[RunEvent]:
    """Return the events in the life of a run and of the attempt that `paths` belongs to, as a list of RunEvent sorted
    by time. Damaged records are left out. Events of the nodes are included if `plan` is set."""
    found: list[RunEvent] = []
    if plan is not None:
        mask = text_masker(paths, plan)
        for node in plan.nodes:
            events = read_events(paths, node.node_rank)
            measured = offset_of_events(events)
            offset = measured.seconds if measured is not None else 0.0
            found += _node_events(events, node.node_rank, offset, mask)
            found += _exceptions(paths, plan, [rank.rank for rank in node.ranks], node.node_rank, offset, mask)
    begun = min((event.time for event in found), default=None)
    found = [*_client_events(paths, begun), *_scheduler_events(paths), *found]
    return sorted(found, key=lambda event: (event.time, event.kind == "settled"))


def _client_events(paths: RunPaths, begun: float | None) -> Iterator[RunEvent]:
    """Yield a RunEvent for each event that the client recorded. The run was submitted at the latest when it had `begun`
    on a node; a client may write the handle later."""
    created = read_object(paths.record).get("created")
    if is_number(created):
        yield RunEvent(float(created or 0), CLIENT, "created", "the run was created", {})
    for path, kind, text in (
        (paths.handle, "submitted", "its compute has accepted it"),
        (paths.cancel, "cancel", "a cancel was requested"),
    ):
        moment = _changed(path)
        if moment is not None:
            if kind == "submitted" and begun is not None:
                moment = min(moment, begun)
            yield RunEvent(moment, CLIENT, kind, text, {})
    result = read_object(paths.result)
    summary = result.get("summary")
    moment = _changed(paths.result)
    if moment is not None and isinstance(summary, dict):
        state, reason = str(summary.get("state")), summary.get("reason")
        ended = summary.get("ended")  # a file's time is up to 0.01 s behind the clock
        if isinstance(ended, (int, float)) and is_number(ended):
            moment = max(moment, ended)
        yield RunEvent(moment, CLIENT, "settled", f"{state}: {reason}" if reason else state, {"state": state})


def _changed(path: str) -> float | None:
    try:
        return os.stat(path).st_mtime
    except OSError:
        return None


def _scheduler_events(paths: RunPaths) -> Iterator[RunEvent]:
    """Yield a RunEvent for each of the last lines of this attempt in the batch script's log in which Slurm states the
    time at which it ended a job or step."""
    for line in attempt_lines(paths):
        moment = slurm_time(line)
        if moment is not None:
            yield RunEvent(moment, SCHEDULER, "ended", line.strip(), {})


def _node_events(
    events: Sequence[dict[str, Any]], node_rank: int, offset: float, mask: Callable[[str], str]
) -> Iterator[RunEvent]:
    for event in events:
        moment, kind = event.get("at", event.get("time")), event.get("event")
        if kind == EVENT and event.get("id") == HANG:
            continue  # a separate event reports it
        if isinstance(moment, (int, float)) and is_number(moment) and isinstance(kind, str):
            fields = _masked({name: each for name, each in event.items() if name not in ("time", "at", "event")}, mask)
            yield RunEvent(moment - offset, f"node {node_rank}", kind, mask(_text(kind, fields)), fields)


def _masked(value: Any, mask: Callable[[str], str], depth: int = _DEEPEST) -> Any:
    """Return a JSON value (text, list, object) of an event with secrets masked in each of its texts. Lists and objects
    nested deeper than `depth` become "…"."""
    if isinstance(value, str):
        return mask(value)
    if not isinstance(value, (list, dict)):
        return value
    if depth == 0:
        return "…"
    if isinstance(value, list):
        return [_masked(each, mask, depth - 1) for each in value]
    return {name: _masked(each, mask, depth - 1) for name, each in value.items()}


def _text(kind: str, fields: dict[str, Any]) -> str:
    """Return a run event as one line of text for people, from its `kind` and `fields`. For a kind that this release
    does not know, list its fields."""
    try:
        return _TEXTS[kind](fields)
    except (KeyError, TypeError, ValueError, AttributeError, OverflowError):
        return ", ".join(f"{name}: {value}" for name, value in fields.items())


def _started(fields: dict[str, Any]) -> str:
    return f"{ranks_text(sorted(map(int, fields['pids'])))} started"


def _exited(fields: dict[str, Any]) -> str:
    after = ", asked to end" if fields["stopped"] else ""
    return f"{ranks_text(fields['ranks'])} ended with code {fields['code']}{after}"


def _stopping(fields: dict[str, Any]) -> str:
    failure = fields.get("failure")
    return f"ends the run ({fields['why']})" + (f": {failure['message']}" if failure else "")


def _clock(fields: dict[str, Any]) -> str:
    return f"its clock is {fields['seconds']:.3f} s ahead of the head's, to {fields['uncertainty']:.3f} s"


def _compared(fields: dict[str, Any]) -> str:
    there = "exists" if fields["found"] else "does not exist either"
    return f"{fields['what']} {fields['name']}, which a rank of another node did not find, {there}"


def _stuck(fields: dict[str, Any]) -> str:
    return f"the run has made no progress for {fields['seconds']:.0f} s ({fields['standing']}): {fields['sentence']}"


_TEXTS: dict[str, Callable[[dict[str, Any]], str]] = {
    "agent_started": lambda fields: f"agent started on {fields['host']}, process {fields['pid']}",
    "ranks_started": _started,
    "rank_exited": _exited,
    "stopping": _stopping,
    "clock": _clock,
    "compared": _compared,
    "prepared": lambda fields: f"prepared in {fields['seconds']:.1f} s",
    "kernel": lambda fields: f"its kernel: {fields['text']}",
    "notice": lambda fields: f"notice: {fields['text']}",
    "stuck": _stuck,
    "resumed": lambda fields: "the run continues: there are signs of life again",
    "unjoined": lambda fields: f"has not joined: {fields['text']}",
    "agent_ended": lambda fields: "agent ended",
}


def _exceptions(
    paths: RunPaths, plan: Plan, ranks: list[int], node_rank: int, offset: float, mask: Callable[[str], str]
) -> Iterator[RunEvent]:
    told = told_error_file(paths, plan)
    for rank in ranks:
        error = read_error(paths, rank, told)
        if error is not None and error["time"]:
            text = mask(f"rank {rank} raised {exception_text(error)}")
            yield RunEvent(error["time"] - offset, f"node {node_rank}", "exception", text, {"rank": rank})
