"""Why a run ended as it did: the evidence, read from its directory, and what `diagnose` makes of it."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping, Sequence

from worldsize.agent.outcome.rank_failure import read_error
from worldsize.common.json_values import is_number
from worldsize.common.named_tuple import Any
from worldsize.diagnose.evidence import Comparison, Line, RaisedException, RankEnd, RunEvidence
from worldsize.diagnose.explanation import Explanation, Link, explain
from worldsize.errors import StorageError
from worldsize.logs.reader import file_size, read_at
from worldsize.logs.tail import tail_offset
from worldsize.logs.text import split_lines, without_colours
from worldsize.logs.times import LogTimes
from worldsize.plan.plan import Plan
from worldsize.plan.run_paths import RunPaths
from worldsize.service.runs.masks import text_masker, told_error_file
from worldsize.service.runs.scheduler_record import read_scheduler_record
from worldsize.service.runs.start_failures import attempt_lines, slurm_time
from worldsize.state.clocks import offset_of_events
from worldsize.state.exit_records import read_events, read_exits
from worldsize.state.hang import Hang, read_hang, with_texts
from worldsize.state.records import RankExit, Status

_LINES, _FEWEST_LINES = 300, 5
"""Of a rank's log, from its end: where there are few ranks, and at least."""

_LINES_IN_ALL = 15_000
"""Of all ranks: what is looked through in a second."""

_BYTES = 256 * 1024
_COUNTED = 64 << 20
"""Bytes up to which a log's lines are counted, which takes a few hundredths of a second."""

_LONGEST_LINE, _LONGEST_EXCEPTION = 1000, 4000
"""Characters that are looked through."""

_LONGEST_PATH = 1000
_FRAMES = 100
"""Of an exception, the innermost ones, that are looked through for the user's own code."""
_LAUNCHERS = ("mpirun", "srun")
"""Those whose own words tell more than the ranks'."""


def explain_run(paths: RunPaths, plan: Plan, status: Status) -> Explanation | None:
    """Why the run ended, or stands still; None of one that succeeded or goes on. What it quotes is masked as the
    failure screen is."""
    explanation = explain(read_evidence(paths, plan, status))
    if explanation is None:
        return None
    return explanation._replace(chain=tuple(_with_line_number(link) for link in explanation.chain))


def _with_line_number(link: Link) -> Link:
    """Return the link with the number of its line in its log, where the log is not too long to count."""
    if link.offset is None or link.offset > _COUNTED:
        return link
    try:
        return link._replace(line=_lines_before(link.file, link.offset) + 1)
    except StorageError:  # it was removed in the meantime
        return link


def read_evidence(paths: RunPaths, plan: Plan, status: Status) -> RunEvidence:
    """What is known of the run's latest attempt, of `paths`."""
    mask = text_masker(paths, plan)
    ranks = [rank.rank for node in plan.nodes for rank in node.ranks]
    nodes = range(len(plan.nodes))
    events = {node: read_events(paths, node) for node in nodes}
    said = [Line(mask(line), paths.batch_log, time=slurm_time(line)) for line in attempt_lines(paths)]
    machine: dict[int | None, list[Line]] = {None: said}
    for node in nodes:
        logs = (paths.agent_log(node), *(paths.launcher_log(node, name) for name in _LAUNCHERS))
        machine[node] = [line for log in logs for line in _log_lines(log, None, _count_of(len(nodes)), mask)]
        machine[node] += _kernel_lines(events[node], paths.events(node), mask)
    return RunEvidence(
        paths.attempt,
        status.state,
        status.reason,
        status.message,
        status.failure,
        list(_rank_ends(paths, plan, mask)),
        _rank_lines(paths, ranks, status, mask),
        machine,
        _known({node: offset_of_events(each) for node, each in events.items()}),
        plan.rehearsal is not None,
        _known({node: _comparison(each) for node, each in events.items()}),
        read_scheduler_record(paths, status),
        _hang(paths, plan, mask),
    )


def _hang(paths: RunPaths, plan: Plan, mask: Any) -> Hang | None:
    """Return the hang that the watch found last, its place in the user's code as that of an exception."""
    hang = read_hang(paths, plan.world_size)
    if hang is None:
        return None
    if hang.place is not None:
        file, line, function = hang.place
        hang = hang._replace(place=(_file_in_code(file, paths.code) or file, line, function))
    return with_texts(hang, mask)


def _rank_ends(paths: RunPaths, plan: Plan, mask: Any) -> Iterator[RankEnd]:
    ended = {each.rank: each for record in read_exits(paths, len(plan.nodes)) for each in record.ranks}
    told = told_error_file(paths, plan)
    for node_rank, node in enumerate(plan.nodes):
        for rank in node.ranks:
            end: RankExit | None = ended.get(rank.rank)
            error = read_error(paths, rank.rank, told)
            exception = _exception(error, paths.code, mask) if error else None
            if end is None:
                yield RankEnd(rank.rank, node_rank, exception=exception)
            else:
                yield RankEnd(rank.rank, node_rank, end.code, end.ended, end.stopped, exception)


def _exception(error: dict[str, Any], code: str, mask: Any) -> RaisedException:
    text = mask(without_colours(": ".join(filter(None, (error["type"], error["message"])))))[:_LONGEST_EXCEPTION]
    frames = error["frames"][-_FRAMES:]
    own = [(file, frame) for frame in frames if (file := _file_in_code(frame["file"], code))]
    if not frames:
        return RaisedException(text, error["time"])
    file, frame = own[-1] if own else (frames[-1]["file"], frames[-1])
    number = frame["line"]
    return RaisedException(text, error["time"], file, number if isinstance(number, int) else None)


def _file_in_code(file: str, code: str) -> str:
    """Return the file's path in the code of the run, also where the node had a copy of that elsewhere; "" for another
    file."""
    if file.startswith(code + "/"):
        return file[len(code) + 1 :]
    if "/lib/python" in file or "/site-packages/" in file or not file.startswith("/") or len(file) > _LONGEST_PATH:
        return ""
    parts = file.split("/")[1:]
    found = ("/".join(parts[start:]) for start in range(len(parts)) if ".." not in parts)
    return next((path for path in found if os.path.isfile(os.path.join(code, path))), "")


def _rank_lines(paths: RunPaths, ranks: Sequence[int], status: Status, mask: Any) -> dict[int, list[Line]]:
    """Return the last lines of each rank: the fewer, the more ranks there are, but for the one that failed first."""
    count = _count_of(len(ranks))
    failed = status.failure.rank if status.failure else None
    return {
        rank: list(_log_lines(paths.rank_log(rank), paths.rank_times(rank), _LINES if rank == failed else count, mask))
        for rank in ranks
    }


def _count_of(logs: int) -> int:
    """Return how many lines of each of so many logs are looked through."""
    return max(_FEWEST_LINES, min(_LINES, _LINES_IN_ALL // max(1, logs)))


def _log_lines(path: str, times_path: str | None, count: int, mask: Any) -> Iterator[Line]:
    """Yield the log's last lines, as many as `count`, with their places and times; none of one that cannot be read."""
    try:
        size = file_size(path)
        start = tail_offset(path, count, _BYTES)
        block = read_at(path, start, size - start)
    except StorageError:  # the others' may tell enough
        return
    if not block:
        return
    times = LogTimes(path, times_path) if times_path is not None and os.path.exists(times_path) else None
    offset = start
    for piece in block.split(b"\n"):
        text = "".join(split_lines(piece))[:_LONGEST_LINE]
        if text.strip():
            time = None if times is None else times.entry_after(offset)[1]
            yield Line(mask(without_colours(text)), path, offset, time)
        offset += len(piece) + 1


def _lines_before(path: str, offset: int) -> int:
    """Return how many lines begin before `offset`."""
    count, at = 0, 0
    while at < offset:
        block = read_at(path, at, min(1 << 20, offset - at))
        if not block:
            break
        count += block.count(b"\n")
        at += len(block)
    return count


def _comparison(events: Sequence[dict[str, Any]]) -> Comparison | None:
    """What the node has found of what a rank of another one did not find; None where it has not looked."""
    for event in events:
        name, found = event.get("name"), event.get("found")
        if event.get("event") == "compared" and isinstance(name, str) and isinstance(found, bool):
            return Comparison(name, found)
    return None


def _kernel_lines(events: Sequence[dict[str, Any]], file: str, mask: Any) -> Iterator[Line]:
    """What the node's kernel said."""
    for event in events:
        text, moment = event.get("text"), event.get("at")
        if event.get("event") == "kernel" and isinstance(text, str):
            yield Line(mask(without_colours(text)), file, None, float(moment or 0) if is_number(moment) else None)


def _known(found: Mapping[int, Any]) -> dict[int, Any]:
    return {node: value for node, value in found.items() if value is not None}
