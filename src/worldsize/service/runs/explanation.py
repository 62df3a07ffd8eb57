"""The explanation of how a run ended: the evidence is read from its directory, and `diagnose` finds the cause."""

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
"""The numbers of lines from the end of a rank's log that are searched: where there are few ranks, and at least."""

_LINES_IN_ALL = 15_000
"""The number of lines of all ranks together that are searched. Searching them takes about a second."""

_BYTES = 256 * 1024
_COUNTED = 64 << 20
"""Bytes up to which a log's lines are counted. Counting them takes a few hundredths of a second."""

_LONGEST_LINE, _LONGEST_EXCEPTION = 1000, 4000
"""Numbers of characters of a line, and of an exception, that are searched."""

_LONGEST_PATH = 1000
_FRAMES = 100
"""The number of innermost frames of an exception that are searched for the user's own code."""
_LAUNCHERS = ("mpirun", "srun")
"""Launchers whose own messages explain more than those of the ranks."""


def explain_run(paths: RunPaths, plan: Plan, status: Status) -> Explanation | None:
    """Return the explanation why the run in `paths` ended or hangs: its cause and the chain of evidence. None for a run
    that succeeded or makes progress. Quoted text is masked in the same way as on the failure screen."""
    explanation = explain(read_evidence(paths, plan, status))
    if explanation is None:
        return None
    return explanation._replace(chain=tuple(_with_line_number(link) for link in explanation.chain))


def _with_line_number(link: Link) -> Link:
    """Return `link`, one step of an explanation, with the number of its line in the log file that it quotes. Return it
    unchanged if it has no offset, or if the log is too long to count or has been removed."""
    if link.offset is None or link.offset > _COUNTED:
        return link
    try:
        return link._replace(line=_lines_before(link.file, link.offset) + 1)
    except StorageError:  # it was removed in the meantime
        return link


def read_evidence(paths: RunPaths, plan: Plan, status: Status) -> RunEvidence:
    """Return the RunEvidence that `diagnose` searches for the cause of a run's end: states, exit codes, exceptions, log
    lines and node events of the attempt that `paths` belongs to, read from the run directory, with secrets masked."""
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
    """Return the hang that the run's watchdog recorded last, with secrets masked; None if there is none. The source
    file at which the ranks hang is named relative to the run's code, as in exceptions."""
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
    """Return the path of a source `file` from a stack trace, relative to the run's code directory `code`, also where
    the node executed a copy of the code elsewhere; "" for a file that is not part of the code."""
    if file.startswith(code + "/"):
        return file[len(code) + 1 :]
    if "/lib/python" in file or "/site-packages/" in file or not file.startswith("/") or len(file) > _LONGEST_PATH:
        return ""
    parts = file.split("/")[1:]
    found = ("/".join(parts[start:]) for start in range(len(parts)) if ".." not in parts)
    return next((path for path in found if os.path.isfile(os.path.join(code, path))), "")


def _rank_lines(paths: RunPaths, ranks: Sequence[int], status: Status, mask: Any) -> dict[int, list[Line]]:
    """Return the last lines of each rank's log, as a mapping of rank to lines. The more ranks there are, the fewer
    lines are read of each log, except for the rank that failed first."""
    count = _count_of(len(ranks))
    failed = status.failure.rank if status.failure else None
    return {
        rank: list(_log_lines(paths.rank_log(rank), paths.rank_times(rank), _LINES if rank == failed else count, mask))
        for rank in ranks
    }


def _count_of(logs: int) -> int:
    """Return how many lines at the end of each log are searched for the cause of a failure where there are `logs`
    logs."""
    return max(_FEWEST_LINES, min(_LINES, _LINES_IN_ALL // max(1, logs)))


def _log_lines(path: str, times_path: str | None, count: int, mask: Any) -> Iterator[Line]:
    """Yield the last lines of the log `path`, at most `count`, masked, with their offsets and, where the file
    `times_path` exists, their times. Yield none if the log cannot be read."""
    try:
        size = file_size(path)
        start = tail_offset(path, count, _BYTES)
        block = read_at(path, start, size - start)
    except StorageError:  # the other logs may be enough
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
    """Return the number of newline characters before the byte `offset` in the file `path`."""
    count, at = 0, 0
    while at < offset:
        block = read_at(path, at, min(1 << 20, offset - at))
        if not block:
            break
        count += block.count(b"\n")
        at += len(block)
    return count


def _comparison(events: Sequence[dict[str, Any]]) -> Comparison | None:
    """Return what a node recorded when it looked for a file or other thing that a rank of another node had not found:
    its name and whether it exists on this node. None if the node's `events` contain no such record."""
    for event in events:
        name, found = event.get("name"), event.get("found")
        if event.get("event") == "compared" and isinstance(name, str) and isinstance(found, bool):
            return Comparison(name, found)
    return None


def _kernel_lines(events: Sequence[dict[str, Any]], file: str, mask: Any) -> Iterator[Line]:
    """Yield the kernel messages that a node recorded in its `events`, masked, each as a Line of the events `file` with
    its time."""
    for event in events:
        text, moment = event.get("text"), event.get("at")
        if event.get("event") == "kernel" and isinstance(text, str):
            yield Line(mask(without_colours(text)), file, None, float(moment or 0) if is_number(moment) else None)


def _known(found: Mapping[int, Any]) -> dict[int, Any]:
    return {node: value for node, value in found.items() if value is not None}
