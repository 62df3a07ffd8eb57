"""The screen about a run that failed: the rank, its node, the error, its last lines, and a summary of the other
ranks."""

from __future__ import annotations

from collections.abc import Callable, Iterable

from worldsize.agent.outcome.rank_failure import read_error
from worldsize.common.named_tuple import Any
from worldsize.logs.tail import last_lines, summarize_others
from worldsize.logs.text import split_message, without_colours
from worldsize.plan.plan import Plan
from worldsize.plan.run_paths import RunPaths
from worldsize.service.runs.masks import text_masker, told_error_file
from worldsize.service.runs.run import Run
from worldsize.state.exit_records import ranks_start_time, read_events, read_exit, signal_name
from worldsize.state.records import Failure, Reason, RunState, Status
from worldsize.state.run_state import CANCELLED_MESSAGE

_LAST_LINES = 12
_FRAMES = 8
_EXCEPTION_LINES = 12
_AFTER_START = 30.0
"""Seconds after a warm start within which a signal may have been caused by the warm start."""

_PLAIN_START = "the rank was forked from a process that had imported its modules: try `preload: off`"
_LINE = 300
"""Number of characters of a line that are shown."""


def failure_data(paths: RunPaths, plan: Plan, status: Status) -> dict[str, Any] | None:
    """Return the data of the screen about a failed run: which rank failed, why, and its last output. None if nothing
    failed.

    Output of the ranks is shown with secrets masked: texts that have the form of a secret, and the job's own secrets as
    far as they are set in this environment.

    The keys are {reason, message, code, node_rank, rank, time, signal, host, exception: {type, message, frames} | None,
    cause, hint, last_lines, others}. `signal` is the name of the signal or None. `host` is the host of the node if the
    node left a record. `cause` is the cause as `why` reports it. `hint` states what to do, where that is known. Where
    no rank was started, the last lines are those of the node's setup log, which for the first node is the batch
    script's log; there are none for a failed rendezvous. Long lines are cut.
    """
    failure = status.failure
    if failure is None:
        return None
    from worldsize.service.runs.explanation import explain_run  # loads the tables of signatures, which few runs need

    record = None if failure.node_rank is None else read_exit(paths, failure.node_rank)
    data: dict[str, Any] = {
        **failure._asdict(),
        "signal": signal_name(failure.code),
        "host": record.host if record else None,
        "exception": None,
        "cause": None,
        "hint": None,
        "last_lines": [],
        "others": [],
    }
    explanation = explain_run(paths, plan, status)
    if explanation is not None:
        data["cause"] = explanation.to_json()["cause"]
        data["hint"] = explanation.cause.hint or None
    if _died_after_warm_start(paths, failure):
        data["hint"] = f"{data['hint']}; {_PLAIN_START}" if data["hint"] else _PLAIN_START
    mask = text_masker(paths, plan)
    ranks = [rank.rank for node in plan.nodes for rank in node.ranks]
    if failure.rank is not None:
        error = read_error(paths, failure.rank, told_error_file(paths, plan))
        data["exception"] = error and _masked_exception(error, mask)
        data["last_lines"] = _shown_lines(last_lines(paths.rank_log(failure.rank), _LAST_LINES), mask)
    elif ranks_start_time(paths) is None:
        wanted = 0 if failure.reason == Reason.RENDEZVOUS else _LAST_LINES  # only agents write about it
        log = paths.setup_log(failure.node_rank or 0)
        return {**data, "last_lines": _shown_lines(last_lines(log, wanted), mask)}
    shown = () if failure.rank is None else (failure.rank,)
    data["others"] = _shown_lines(summarize_others(paths, ranks, shown), mask)
    return data


def _died_after_warm_start(paths: RunPaths, failure: Failure) -> bool:
    """Return whether a signal ended the failed rank within `_AFTER_START` seconds after its node's ranks had been
    started warm, which means forked from a process with preloaded modules."""
    if failure.rank is None or failure.node_rank is None or signal_name(failure.code) is None:
        return False
    started = [each for each in read_events(paths, failure.node_rank) if each.get("start") == "warm"]
    time = started[-1].get("time") if started else None
    return isinstance(time, float) and failure.time - time < _AFTER_START


def _masked_exception(error: dict[str, Any], mask: Callable[[str], str]) -> dict[str, Any]:
    frames = [{**frame, "code": mask(frame["code"])} for frame in error["frames"]]
    found = {**error, "message": mask(error["message"]), "frames": frames}
    return {**found, "stack": list(map(mask, error["stack"]))} if "stack" in error else found


def run_failure_lines(run: Run, status: Status) -> list[str]:
    """Return the text lines of a failed run's screen, without the headline. If there is no failure data, they are the
    lines of the status's own message. There are no lines for a run of which nothing is known but that it was cancelled.
    """
    if status.message == CANCELLED_MESSAGE and (status.state == RunState.LOST or status.failure is None):
        return []
    data = None if status.state == RunState.LOST else failure_data(run.paths, run.plan, status)
    if data is not None:
        return failure_lines(run.paths, run.id, data)
    return split_message(status.message) if status.message else []


def failure_lines(paths: RunPaths, run_id: str, data: dict[str, Any]) -> list[str]:
    """Return the screen about a failed run as lines of text, without its headline. `data` is the result of
    `failure_data`."""
    lines = split_message(without_colours(data["message"]))
    exception = data["exception"]
    if exception:
        lines += ["", *_exception_lines(exception, paths.code)]
    lines += _cause_lines(data)
    if data["last_lines"]:
        rank = data["rank"]
        whose = "before the ranks" if rank is None else f"of rank {rank}"
        log = paths.setup_log(data["node_rank"] or 0) if rank is None else paths.rank_log(rank)
        lines += ["", f"last lines {whose} ({log}):"]
        lines += ["  | " + line for line in data["last_lines"]]
    if data["others"]:
        lines += ["", "other ranks:"]
        lines += ["  " + line for line in data["others"]]
    if data["rank"] is not None:
        lines += ["", f"full log: worldsize logs {run_id} --rank {data['rank']}"]
    return [without_colours(line) for line in lines]


def _cause_lines(data: dict[str, Any]) -> list[str]:
    """Return the lines of the failure screen about the cause and what to do. The cause is left out where it would only
    repeat the exception or the message on the same screen."""
    cause = data["cause"]
    if (
        not cause
        or cause["sentence"] in data["message"]
        or (cause["id"] == "exception" and cause["rank"] == data["rank"])
    ):
        return ["", f"what to do: {data['hint']}"] if data["hint"] else []
    said = f"cause ({cause['standing']}, {cause['id']}): {cause['sentence']}"
    return ["", said, *([f"what to do: {data['hint']}"] if data["hint"] else [])]


def _exception_lines(exception: dict[str, Any], code: str) -> list[str]:
    said = (f"{exception['type']}: {exception['message']}").strip(": ")
    frames = exception["frames"]
    own = [frame for frame in frames if frame["file"].startswith(code)] or frames
    where = [_frame_text(frame, code) for frame in reversed(own[-_FRAMES:])]
    where += ["  " + line for line in exception.get("stack", [])[-_FRAMES:]]
    where = where[:_FRAMES]
    return [_shorten(line) for line in split_message(without_colours(said))[: _EXCEPTION_LINES - len(where)] + where]


def _frame_text(frame: dict[str, Any], code: str) -> str:
    place = f"  {frame['file'].removeprefix(code + '/')}:{frame['line']} in {frame['function']}"
    return f"{place}    {frame['code']}" if frame["code"] else place


def _shown_lines(lines: Iterable[str], mask: Callable[[str], str]) -> list[str]:
    """Return lines of a rank's output as the failure screen shows them: with secrets masked by `mask`, and long lines
    cut."""
    return [_shorten(mask(line)) for line in lines]


def _shorten(line: str) -> str:
    """Return the first `_LINE` characters of a line of output, with a note of the number of bytes that were cut off;
    the line itself if it is not longer."""
    left = len(line[_LINE:].encode(errors="replace"))
    return f"{line[:_LINE]}… ({left} more bytes)" if left else line
