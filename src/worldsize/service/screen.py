"""One screen about a run that failed: who, where, what, its last words, and what the others said."""

from __future__ import annotations

from typing import Any

from worldsize.agent.failure import read_error
from worldsize.logs.tail import last_lines, summarize_others
from worldsize.plan.launch import Plan
from worldsize.plan.paths import RunPaths
from worldsize.state.records import Status

_LAST_LINES = 12
_FRAMES = 8


def failure_data(paths: RunPaths, plan: Plan, status: Status) -> dict[str, Any] | None:
    """The screen as data; None where nothing failed.

    {reason, message, code, node_rank, rank, exception: {type, message, frames} | None, last_lines, others}
    """
    failure = status.failure
    if failure is None:
        return None
    data: dict[str, Any] = {**failure._asdict(), "exception": None, "last_lines": [], "others": []}
    ranks = [rank.rank for node in plan.nodes for rank in node.ranks]
    if failure.rank is not None:
        data["exception"] = read_error(paths, failure.rank, plan.environment.get("TORCHELASTIC_ERROR_FILE"))
        data["last_lines"] = last_lines(paths.rank_log(failure.rank), _LAST_LINES)
    shown = () if failure.rank is None else (failure.rank,)
    data["others"] = summarize_others(paths, ranks, shown)
    return data


def failure_lines(paths: RunPaths, run_id: str, data: dict[str, Any]) -> list[str]:
    """The screen as text, without its headline."""
    lines = [data["message"]]
    exception = data["exception"]
    if exception:
        lines += ["", *_exception(exception, paths.code)]
    if data["last_lines"]:
        lines += ["", "last lines of rank %d (%s):" % (data["rank"], paths.rank_log(data["rank"]))]
        lines += ["  | " + line for line in data["last_lines"]]
    if data["others"]:
        lines += ["", "the others:"]
        lines += ["  " + line for line in data["others"]]
    if data["rank"] is not None:
        lines += ["", "all of it: worldsize logs %s --rank %d" % (run_id, data["rank"])]
    return lines


def _exception(exception: dict[str, Any], code: str) -> list[str]:
    said = ("%s: %s" % (exception["type"], exception["message"])).strip(": ").splitlines() or [""]
    lines = said[:_LAST_LINES]
    frames = exception["frames"]
    own = [frame for frame in frames if frame["file"].startswith(code)] or frames
    for frame in reversed(own[-_FRAMES:]):
        file = frame["file"].removeprefix(code + "/")
        place = "  %s:%s in %s" % (file, frame["line"], frame["function"])
        lines.append("%s    %s" % (place, frame["code"]) if frame["code"] else place)
    lines += ["  " + line for line in exception.get("stack", [])]
    return lines
