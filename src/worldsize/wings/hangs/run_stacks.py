"""The stacks of all ranks of a run at the time of a request, and their judgement: whether the run works, else which
ranks block the others. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, NamedTuple

from worldsize.plan.plan import Plan
from worldsize.wings.hangs.asked_nodes import Unanswered
from worldsize.wings.hangs.judgement.process_states import RankState, process_findings
from worldsize.wings.hangs.judgement.stacks.rank_activity import COMPUTES, HELD, MOVES, STOPPED, UNSEEN, WAKES
from worldsize.wings.hangs.judgement.stacks.rank_stacks import RankStacks
from worldsize.wings.hangs.judgement.stacks.stack_groups import StackGroup, group_ranks
from worldsize.wings.hangs.judgement.stacks.stack_witness import judge_stacks
from worldsize.wings.hangs.judgement.verdict import Verdict, hang_verdict

_GOES_ON = (COMPUTES, WAKES, MOVES, HELD)
_SILENT = {STOPPED, UNSEEN}
"""Activities that show neither that a rank works nor that it waits."""

_LIMIT = 300.0
"""Seconds of silence after which a run is looked at, if its job sets no limit."""


class AskedRun(NamedTuple):
    """The run whose stacks are requested. `nodes` maps each rank, in order, to its node. `limit` is the timeout of the
    run's watchdog in seconds."""

    run_id: str
    attempt: int
    nodes: Mapping[int, int]
    limit: float


class StacksJudgement(NamedTuple):
    """The judgement of a run by its stacks.

    works     whether the run works; None if that is not known
    sentence  the judgement in words
    verdict   the verdict on which ranks block the others; None for a run that works, or may work
    """

    works: bool | None
    sentence: str
    verdict: Verdict | None


class RunStacks(NamedTuple):
    """The stacks that were found in a run, and their judgement.

    latest      the stacks of all processes, from the latest look at each rank
    ended       the exit codes of the ranks that have ended, by rank
    unanswered  the nodes that have not sent all stacks
    judgement   None after a single look, which does not show whether anything moves
    """

    run: AskedRun
    latest: tuple[RankStacks, ...]
    ended: Mapping[int, int]
    unanswered: tuple[Unanswered, ...]
    judgement: StacksJudgement | None

    def groups(self) -> tuple[StackGroup, ...]:
        """Return the ranks of the run as groups with equal stacks (StackGroup), the smallest group first. Ranks that
        have ended are left out."""
        return group_ranks(each for each in self.latest if each.rank not in self.ended)

    def by_rank(self) -> dict[int, list[RankStacks]]:
        """Return the stacks of each rank's processes, by rank, with those of the rank's own Python first; an empty list
        for a rank without stacks."""
        found: dict[int, list[RankStacks]] = {rank: [] for rank in self.run.nodes}
        for each in self.latest:
            found[each.rank].append(each)
        return found

    def absent(self) -> dict[int, str]:
        """Return the ranks that have ended or have no stacks, each mapped to the reason in words, such as "has ended
        with code 1"."""
        seen = {each.rank for each in self.latest}
        silent = {each.node for each in self.unanswered}
        found = {}
        for rank, node in self.run.nodes.items():
            if rank in self.ended:
                found[rank] = f"has ended with code {self.ended[rank]}"
            elif rank not in seen:
                found[rank] = "is not known" if node in silent else "has no process that was found"
        return found


def asked_run(run_id: str, attempt: int, plan: Plan) -> AskedRun:
    nodes = {each.rank: node.node_rank for node in plan.nodes for each in node.ranks}
    return AskedRun(run_id, attempt, dict(sorted(nodes.items())), plan.watchdog_timeout or _LIMIT)


def run_stacks(
    run: AskedRun,
    looks: Sequence[Sequence[RankStacks]],
    ended: Mapping[int, int],
    unanswered: tuple[Unanswered, ...],
    hertz: int,
) -> RunStacks:
    """Return the stacks of a run's ranks and their judgement, from one or two looks at all ranks. There is no judgement
    after a single look. `ended` maps ended ranks to their exit codes; `hertz` is the number of clock ticks per second.
    """
    seen = {each.rank for each in looks[-1]}
    latest = [*looks[-1], *(each for each in looks[0] if each.rank not in seen)]
    judgement = _judge(run, looks[0], looks[-1], ended, hertz) if len(looks) > 1 else None
    order = sorted(latest, key=lambda each: (each.rank, each.parent is not None, each.pid))
    return RunStacks(run, tuple(order), ended, unanswered, judgement)


def _judge(
    run: AskedRun, before: Sequence[RankStacks], after: Sequence[RankStacks], ended: Mapping[int, int], hertz: int
) -> StacksJudgement:
    if ended.keys() >= run.nodes.keys():
        return StacksJudgement(None, "all ranks have ended", None)
    if not (before and after):
        return StacksJudgement(None, "whether it makes progress is unknown: no rank was seen twice", None)
    judged = judge_stacks(before, after, len(run.nodes), run.limit, ended, (), hertz)
    if judged.alive:
        seen = {each.activity for each in judged.summary.ranks.values()}
        works = True if seen.intersection(_GOES_ON) else None
        said = "it works" if works else "it may work" if seen - _SILENT else "whether it makes progress is unknown"
        return StacksJudgement(works, f"{said}: {judged.reason}", None)
    states = {each.rank: RankState(None, each.state) for each in after if each.parent is None}
    states.update({rank: RankState(code) for rank, code in ended.items()})
    verdict = hang_verdict([*judged.findings, *process_findings(states)], run.nodes)
    return StacksJudgement(False, verdict.sentence, verdict)


def ended_ranks(events: Iterable[Mapping[str, Any]], ranks: Mapping[int, int]) -> dict[int, int]:
    """Return the exit codes of those of `ranks` that have ended according to the events of the nodes' agents, by
    rank."""
    found = {}
    for event in events:
        told, code = event.get("ranks"), event.get("code")
        if event.get("event") == "rank_exited" and isinstance(told, list) and type(code) is int:
            found.update({rank: code for rank in told if type(rank) is int and rank in ranks})
    return found
