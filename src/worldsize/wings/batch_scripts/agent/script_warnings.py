"""Warnings of a batch script that ended with 0: the steps that failed and that it went on from."""

from __future__ import annotations

from collections.abc import Iterator

from worldsize.agent.outcome.rank_warnings import command_text, exception_warning
from worldsize.plan.plan import Plan
from worldsize.plan.run_paths import RunPaths
from worldsize.state.records import RunWarning
from worldsize.wings.batch_scripts.agent.script_failures import failed_tasks, rank_errors
from worldsize.wings.batch_scripts.agent.step_records import read_steps

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

_STEP = "failed-step"


def script_warnings(plan: Plan, paths: RunPaths) -> Iterator[RunWarning]:
    """The steps that failed and that the script went on from; then the exceptions of tasks that no step told of."""
    told: set[int | None] = set()
    for step in read_steps(paths):
        if not step.get("code") or step.get("stopped"):
            continue  # a script that ends its own step by a signal means to
        told.add((step.get("failure") or {}).get("rank"))
        yield _step_warning(step)
    for rank, error in sorted(rank_errors(paths), key=lambda each: each[0]):
        if rank not in told:
            told.add(rank)
            yield exception_warning(rank, error)
    for task in failed_tasks(plan, paths):
        if task.task not in told:
            told.add(task.task)
            what = "task %d of a step (%s) ended with code %d, and the script went on"
            yield RunWarning(_STEP, what % (task.task, task.host, task.code), task.task)


def _step_warning(step: dict[str, Any]) -> RunWarning:
    failure = step.get("failure") or {}
    what = f"step {step['step']} ({command_text(step['command'])}) ended with code {step['code']}"
    why = failure.get("message")
    return RunWarning(_STEP, f"{what}: {why}" if why else what, failure.get("rank"))
