"""Warnings of a node whose ranks ended with 0: an exception, a failed step, a process that was left running.

Standard library only: travels inside agent.pyz (Python >= 3.8).
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence

from worldsize.agent.outcome.rank_failure import exception_text, read_error
from worldsize.agent.supervision.rank_processes import Leftover
from worldsize.plan.plan import Plan
from worldsize.plan.run_paths import RunPaths
from worldsize.state.records import Failure, RankExit, Reason, RunWarning

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

EXCEPTION = "uncaught-exception"
STEP = "failed-step"
LEFTOVER = "ended-leftover"
_MOST = 8
"""Of a node: its exit record has a bounded room on a full disk."""

_SHOWN = 80


def node_warnings(
    plan: Plan, paths: RunPaths, exits: Sequence[RankExit], leftovers: Sequence[Leftover]
) -> tuple[RunWarning, ...]:
    """Of a node whose ranks have ended as `exits` tell, and whose `leftovers` we had to end; without any secret."""
    succeeded = [each.rank for each in exits if each.code == 0 and not each.stopped]
    if not succeeded:
        return ()
    found = list(_batch_warnings(plan, paths) if plan.batch is not None else _rank_warnings(paths, succeeded))
    found += [_leftover_warning(each, plan) for each in leftovers if each.rank is None or each.rank in succeeded]
    return tuple(each._replace(text=_without_secrets(each.text, plan)) for each in found[:_MOST])


def strict_failure(warnings: Sequence[RunWarning], node_rank: int) -> Failure:
    """The first warning as the failure of a run that takes none."""
    first = warnings[0]
    return Failure(Reason.EXIT_CODE, f"{first.text} (strict: true)", node_rank, first.rank, 1, time.time())


def _rank_warnings(paths: RunPaths, ranks: Sequence[int]) -> Iterator[RunWarning]:
    for rank in ranks:
        error = read_error(paths, rank)
        if error is not None:
            yield _exception_warning(rank, error)


def _exception_warning(rank: int, error: dict[str, Any]) -> RunWarning:
    what = "rank {} left an uncaught {}".format(rank, exception_text(error) or "exception")
    return RunWarning(EXCEPTION, f"{what}, and ended with 0", rank)


def _batch_warnings(plan: Plan, paths: RunPaths) -> Iterator[RunWarning]:
    """The steps that failed and that the script went on from; then the exceptions of tasks that no step told of."""
    from worldsize.agent.launchers.batch_script import failed_tasks, rank_errors
    from worldsize.agent.virtual_srun.step_records import read_steps

    told = set()
    for step in read_steps(paths):
        if not step.get("code") or step.get("stopped"):
            continue  # a script that ends its own step by a signal means to
        failure = step.get("failure") or {}
        told.add(failure.get("rank"))
        what = f"step {step['step']} ({_short_text(step['command'])}) ended with code {step['code']}"
        why = failure.get("message")
        yield RunWarning(STEP, f"{what}: {why}" if why else what, failure.get("rank"))
    for rank, error in sorted(rank_errors(paths), key=lambda each: each[0]):
        if rank not in told:
            told.add(rank)
            yield _exception_warning(rank, error)
    for task in failed_tasks(plan, paths):
        if task.task not in told:
            told.add(task.task)
            what = "task %d of a step (%s) ended with code %d, and the script went on"
            yield RunWarning(STEP, what % (task.task, task.host, task.code), task.task)


def _leftover_warning(left: Leftover, plan: Plan) -> RunWarning:
    who = "the batch script" if plan.batch is not None else f"rank {left.rank}" if left.rank is not None else "a rank"
    what = "%s ended with 0 while what it had started was still running, and was ended: %s"
    return RunWarning(LEFTOVER, what % (who, _short_text(left.words)), left.rank)


def _short_text(words: Sequence[str]) -> str:
    from worldsize.trust.secrets import mask_argv

    text = " ".join(mask_argv(list(words)))
    return text if len(text) <= _SHOWN else text[: _SHOWN - 1] + "…"


def _without_secrets(text: str, plan: Plan) -> str:
    from worldsize.plan.secrets_file import plan_secret_values
    from worldsize.trust.secrets import mask_values

    masked: str = mask_values(text, plan_secret_values(plan))
    return masked
