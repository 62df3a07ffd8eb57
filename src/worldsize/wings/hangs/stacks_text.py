"""The text form of the stacks of a run's ranks: groups of ranks with equal stacks, a rank's stacks in full, the
verdict.

Pure.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence

from worldsize.common.atomic_files import printable_text
from worldsize.common.numbers import ranks_text
from worldsize.wings.hangs.judgement.stacks.collective_waits import is_library
from worldsize.wings.hangs.judgement.stacks.rank_stacks import (
    FAULTHANDLER,
    PROC,
    PY_SPY,
    Frame,
    RankStacks,
    ThreadStack,
)
from worldsize.wings.hangs.judgement.stacks.stack_groups import (
    StackGroup,
    group_line,
    process_words,
    words_of_several,
)
from worldsize.wings.hangs.run_stacks import AskedRun, RunStacks, StacksJudgement

_MOST_USER_FRAMES = 5
_LONGEST_SOURCE = 100
_SOURCES = {PY_SPY: "by py-spy", FAULTHANDLER: "by faulthandler", PROC: "by the kernel only"}
_ONE_LOOK = "one look does not show whether the run makes progress; omit --once for two looks"


def stacks_lines(found: RunStacks, full: Collection[int]) -> list[str]:
    """Return the stacks and the verdict of a run as the lines of text that `worldsize stacks` prints. `full` contains
    the ranks whose stacks are shown in full. If it is empty, each group is followed by the user's own frames in the
    main thread of its first rank."""
    lines: list[str] = []
    for group in found.groups():
        lines.append(group_line(group))
        lines += [] if full else _example_lines(group, found.run.run_id)
    for why, ranks in _by_reason(found).items():
        lines.append(f"{ranks_text(ranks)}: {why if len(ranks) == 1 else words_of_several(why)}")
    by_rank = found.by_rank() if full else {}
    for rank in sorted(full):
        for each in by_rank[rank]:
            lines += ["", *_process_lines(each, found.run)]
    for node in found.unanswered:
        name = f"node {node.node} ({node.host})" if node.host else f"node {node.node}"
        lines.append(printable_text(f"{name} has not sent all stacks: {node.reason}"))
    return [*lines, "", *verdict_lines(found.judgement)]


def verdict_lines(judgement: StacksJudgement | None) -> list[str]:
    """Return the judgement of a run by its stacks as lines of text, with the standing of the verdict and its witnesses.
    `judgement` is None after a single look; the line then explains how to get one."""
    if judgement is None:
        return [_ONE_LOOK]
    if judgement.verdict is None:
        return [printable_text(judgement.sentence)]
    verdict = judgement.verdict
    by = f", by {' and '.join(verdict.witnesses)}" if verdict.witnesses else ""
    return [printable_text(f"verdict ({verdict.standing}{by}): {judgement.sentence}")]


def _by_reason(found: RunStacks) -> dict[str, list[int]]:
    reasons: dict[str, list[int]] = {}
    for rank, why in found.absent().items():
        reasons.setdefault(why, []).append(rank)
    return reasons


def _example_lines(group: StackGroup, run_id: str) -> list[str]:
    thread = group.example.main_thread
    if thread is None or not thread.frames:
        return [f"  {printable_text(group.example.problem)}"] if group.example.problem else []
    own = [frame for frame in thread.frames if not is_library(frame.file)]
    return _frame_lines(own or thread.frames, run_id, "  ", _MOST_USER_FRAMES)


def _frame_lines(frames: Sequence[Frame], run_id: str, indent: str, most: int | None = None) -> list[str]:
    lines = [indent + _frame_text(frame, run_id) for frame in frames[:most]]
    more = len(frames) - len(lines)
    return [*lines, f"{indent}and {more} more"] if more else lines


def _frame_text(frame: Frame, run_id: str) -> str:
    """Return one stack frame as a line of text: file, line, function and source. Files of the run's code are shown by
    their names within the code, and other files by their whole paths."""
    file = frame.file.rpartition(f"/{run_id}/code/")[2] or "?"
    line = f":{frame.line}" if frame.line else ""
    source = frame.text if len(frame.text) <= _LONGEST_SOURCE else frame.text[: _LONGEST_SOURCE - 1] + "…"
    return printable_text(f"{file}{line} in {frame.function or '?'}" + (f": {source}" if source else ""))


def _process_lines(stacks: RankStacks, run: AskedRun) -> Iterable[str]:
    """Yield the lines of text that show the stacks of one process in full, with every thread that was found."""
    whose = f"rank {stacks.rank} on node {run.nodes[stacks.rank]}, process {stacks.pid}"
    if stacks.parent is not None:
        whose += f", a child of {stacks.parent}"
    how = _SOURCES.get(stacks.source, "")
    told = (f"({stacks.command})" if stacks.command else "", f"state {stacks.state}" if stacks.state else "", how)
    yield printable_text(f"{whose} {', '.join(filter(None, told))}: {process_words(stacks)}")
    if stacks.problem:
        yield f"  {printable_text(stacks.problem)}"
    for thread in stacks.threads:
        yield f"  {printable_text(_thread_text(thread))}"
        yield from _frame_lines(thread.frames, run.run_id, "    ") or ["    no frame of Python"]


def _thread_text(thread: ThreadStack) -> str:
    told = [
        "the main one" if thread.main else "",
        "" if thread.active is None else "active" if thread.active else "idle",
        "holds Python's lock" if thread.holds_gil else "",
    ]
    return ", ".join([f"thread {thread.name}" if thread.name else "a thread without a name", *filter(None, told)])
