"""The JSON form of the stacks of a run's ranks, which `worldsize stacks -o json` prints. Pure."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import Any

from worldsize.wings.hangs.judgement.stacks.collective_waits import Wait, wait_of_process
from worldsize.wings.hangs.judgement.stacks.rank_stacks import Frame, RankStacks
from worldsize.wings.hangs.judgement.stacks.stack_groups import StackGroup, group_line
from worldsize.wings.hangs.judgement.verdict import Verdict
from worldsize.wings.hangs.run_stacks import RunStacks, StacksJudgement


def stacks_object(found: RunStacks, wanted: Collection[int]) -> dict[str, Any]:
    """Return the stacks and the verdict of a run as the JSON object that `worldsize stacks -o json` prints. The list of
    ranks contains only those in `wanted`."""
    by_rank, absent = found.by_rank(), found.absent()
    return {
        "id": found.run.run_id,
        "attempt": found.run.attempt,
        "groups": [_group_object(group) for group in found.groups()],
        "ranks": [
            _rank_object(rank, found.run.nodes[rank], by_rank[rank], absent.get(rank)) for rank in sorted(wanted)
        ],
        "unanswered": [
            {"node": each.node, "host": each.host or None, "reason": each.reason} for each in found.unanswered
        ],
        "verdict": None if found.judgement is None else _judgement_object(found.judgement, found),
    }


def _group_object(group: StackGroup) -> dict[str, Any]:
    thread = group.example.main_thread
    return {
        "ranks": list(group.ranks),
        "text": group_line(group),
        "waits_for": _wait_object(group.wait),
        "frames": [_frame_object(frame) for frame in thread.frames] if thread is not None else [],
    }


def _wait_object(wait: Wait) -> dict[str, Any] | None:
    return None if wait.kind is None else {"kind": wait.kind, "call": wait.call}


def _frame_object(frame: Frame) -> dict[str, Any]:
    return {"file": frame.file, "line": frame.line or None, "function": frame.function, "code": frame.text}


def _rank_object(rank: int, node: int, processes: Sequence[RankStacks], absent: str | None) -> dict[str, Any]:
    own = next((each for each in processes if each.parent is None), None)
    return {
        "rank": rank,
        "node": node,
        **(_process_object(own) if own is not None else dict.fromkeys(_NOTHING, None)),
        **({} if absent is None else {"problem": absent}),
        "threads": _threads(own) if own is not None else [],
        "children": [
            {**_process_object(each), "parent": each.parent, "threads": _threads(each)}
            for each in processes
            if each.parent is not None
        ],
    }


_NOTHING = ("pid", "command", "state", "source", "problem", "waits_for")
"""The fields that are null for a rank without stacks."""


def _process_object(stacks: RankStacks) -> dict[str, Any]:
    return {
        "pid": stacks.pid,
        "command": stacks.command,
        "state": stacks.state or None,
        "source": stacks.source,
        "problem": stacks.problem or None,
        "waits_for": _wait_object(wait_of_process(stacks)),
    }


def _threads(stacks: RankStacks) -> list[dict[str, Any]]:
    return [
        {
            "name": thread.name,
            "main": thread.main,
            "active": thread.active,
            "holds_gil": thread.holds_gil,
            "frames": [_frame_object(frame) for frame in thread.frames],
        }
        for thread in stacks.threads
    ]


def _judgement_object(judgement: StacksJudgement, found: RunStacks) -> dict[str, Any]:
    verdict = judgement.verdict or _NO_VERDICT
    place = verdict.place
    return {
        "works": judgement.works,
        "sentence": judgement.sentence,
        "standing": verdict.standing or None,
        "kind": verdict.kind,
        "ranks": list(verdict.ranks),
        "nodes": sorted({found.run.nodes[rank] for rank in verdict.ranks if rank in found.run.nodes}),
        "call": verdict.call or None,
        "waiting": list(verdict.waiting),
        "place": None if place is None else {"file": place[0], "line": place[1] or None, "function": place[2]},
        "witnesses": list(verdict.witnesses),
        "missing": dict(verdict.missing),
    }


_NO_VERDICT = Verdict("", None, (), "", None, (), None, None, (), {}, "")
"""The empty verdict of a run that works, or may work."""
