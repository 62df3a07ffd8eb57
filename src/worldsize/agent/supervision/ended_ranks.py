"""The failures of ranks that have ended, as the ranks themselves, their launcher or their batch script report them."""

from __future__ import annotations

from collections.abc import Sequence

from worldsize.agent.launchers.base import find_launcher
from worldsize.agent.launchers.rank_process import EndedProcess, NodeEnd
from worldsize.agent.outcome.node_record import is_disk_full
from worldsize.agent.outcome.rank_failure import (
    code_after_exception,
    has_errors,
    oom_kills,
    read_error,
    with_storage_reason,
    with_watchdogs_words,
)
from worldsize.agent.supervision.rank_processes import Leftover
from worldsize.common.json_values import PARSE_ERRORS
from worldsize.common.named_tuple import Any
from worldsize.plan.plan import Plan
from worldsize.plan.run_paths import RunPaths
from worldsize.state.records import Failure, RankExit, Reason, RunWarning

_TERM_CODE = 143


class EndedRanks:
    """The failures of one node's ranks. `hosts` are the names of all nodes, once they are known."""

    def __init__(self, plan: Plan, paths: RunPaths, node_rank: int) -> None:
        self.hosts: Sequence[str] = ()
        self._plan = plan
        self._launcher = find_launcher(plan.launcher)  # looked up now: the working directory will change
        self._paths = paths
        self._node_rank = node_rank
        self._oom_kills = oom_kills()

    def failures(self, ended: EndedProcess, before: float | None = None) -> list[Failure]:
        """Return the failures of the ranks of an ended process: one for each rank, or, for the process of a launcher,
        which represents several ranks, those that the launcher reports.

        With `before` (Unix seconds), return only the failures of ranks that failed by themselves before that time, by
        the times of their exceptions.
        """
        if before is None:
            return self._failures(ended)
        if self._plan.batch is None:
            if not any(self._errors(ended)):
                return []  # the usual case for ranks that were stopped
            ended = ended._replace(code=code_after_exception(ended.code))
        return [failure for failure in self._failures(ended) if failure.time < before]

    def warnings(self, ranks: tuple[RankExit, ...], leftovers: Sequence[Leftover]) -> tuple[RunWarning, ...]:
        """Return the warnings about a node whose processes have all ended, as `ranks` state, without a failure of the
        run: recorded exceptions, and the `leftovers` of ranks that the agent had to end. Return none if the records
        cannot be parsed."""
        if not leftovers and self._plan.batch is None and not has_errors(self._paths):
            return ()
        from worldsize.agent.supervision.warnings import node_warnings

        try:
            return node_warnings(self._plan, self._paths, ranks, leftovers)
        except PARSE_ERRORS:  # the run's own programs may write to the records that warnings are made of
            return ()

    def _errors(self, ended: EndedProcess) -> list[dict[str, Any] | None]:
        told = ended.process.environment.get("TORCHELASTIC_ERROR_FILE")
        return [read_error(self._paths, rank, told) for rank in ended.process.ranks]

    def _failures(self, ended: EndedProcess) -> list[Failure]:
        oom = oom_kills() > self._oom_kills >= 0 and _may_be_of_own_group()
        end = NodeEnd(self._plan, self._paths, self._node_rank, self.hosts, ended, oom)
        found = (with_watchdogs_words(failure, self._paths) for failure in self._launcher.failures(end))
        return [self._with_full_disk_reason(failure) for failure in found]

    def _with_full_disk_reason(self, failure: Failure) -> Failure:
        """Return the rank's failure with the reason STORAGE if the disk of the run directory is full and may have
        caused it; else unchanged. A batch script that ended by TERM counts: the TERM may come from srun, whose message
        about the first failed task found no room either."""
        ended = failure.reason == Reason.EXIT_CODE or (self._plan.batch is not None and failure.code == _TERM_CODE)
        full = ended and is_disk_full(self._paths.root)
        return with_storage_reason(failure, self._paths.root) if full else failure


def _may_be_of_own_group() -> bool:
    """Return whether a process of this process's control group may be among those that the kernel has killed because
    memory had run out. The machine's count of such kills includes the processes of all users."""
    from worldsize.agent.machine.control_groups import memory_kills  # few runs need it

    return memory_kills() != 0
