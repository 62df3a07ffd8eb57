"""Warnings of a node whose ranks ended with 0: an exception, a failed step, a process that was left running.

Standard library only: travels inside agent.pyz (Python >= 3.8).
"""

from __future__ import annotations

import time
from collections.abc import Sequence

from worldsize.agent.launchers.base import find_launcher
from worldsize.agent.outcome.rank_warnings import command_text
from worldsize.agent.supervision.rank_processes import Leftover
from worldsize.plan.plan import Plan
from worldsize.plan.run_paths import RunPaths
from worldsize.state.records import Failure, RankExit, Reason, RunWarning

LEFTOVER = "ended-leftover"
_MOST = 8
"""The maximum number of warnings of a node, because the room that is reserved for its exit record on a full disk is
limited."""


def node_warnings(
    plan: Plan, paths: RunPaths, exits: Sequence[RankExit], leftovers: Sequence[Leftover]
) -> tuple[RunWarning, ...]:
    """Return the warnings about a node whose ranks have ended as `exits` state, and whose `leftovers` the agent had to
    end; none if no rank ended by itself with code 0. At most 8, with secrets masked."""
    succeeded = [each.rank for each in exits if each.code == 0 and not each.stopped]
    if not succeeded:
        return ()
    found = list(find_launcher(plan.launcher).warnings(plan, paths, succeeded))
    found += [_leftover_warning(each, plan) for each in leftovers if each.rank is None or each.rank in succeeded]
    return tuple(each._replace(text=_without_secrets(each.text, plan)) for each in found[:_MOST])


def strict_failure(warnings: Sequence[RunWarning], node_rank: int) -> Failure:
    """Return the Failure of a run with `strict: true`, which does not accept warnings, made from the first of
    `warnings`."""
    first = warnings[0]
    return Failure(Reason.EXIT_CODE, f"{first.text} (strict: true)", node_rank, first.rank, 1, time.time())


def _leftover_warning(left: Leftover, plan: Plan) -> RunWarning:
    who = "the batch script" if plan.batch is not None else f"rank {left.rank}" if left.rank is not None else "a rank"
    what = "%s ended with 0 while processes that it had started were still running; they were terminated: %s"
    return RunWarning(LEFTOVER, what % (who, command_text(left.words)), left.rank)


def _without_secrets(text: str, plan: Plan) -> str:
    from worldsize.plan.secrets_file import plan_secret_values
    from worldsize.trust.secrets import mask_values

    masked: str = mask_values(text, plan_secret_values(plan))
    return masked
