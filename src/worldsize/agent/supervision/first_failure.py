"""Which rank's failure a run is ended for: what each one says, and who must wait for a word from elsewhere."""

from __future__ import annotations

from collections.abc import Sequence

from worldsize.agent.launchers.rank_process import EndedProcess
from worldsize.agent.outcome.node_record import is_disk_full
from worldsize.agent.outcome.rank_failure import (
    code_after_exception,
    may_follow,
    oom_kills,
    precedence,
    rank_failure,
    read_error,
    with_storage_reason,
)
from worldsize.plan.plan import Plan
from worldsize.plan.run_paths import RunPaths
from worldsize.state.records import Failure, Reason

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

SETTLE = 0.3
"""Seconds that a suspect waits for whoever may have caused its end."""

_TERM_CODE = 143
_STOP_CODES = (130, _TERM_CODE)
"""Killed by INT or TERM, or an exit code that says so."""


class FirstFailureSelector:
    """One node's failures. `decide_at`: when the pending suspect's time is up (monotonic); None without one.
    `hosts`: the names of all nodes, once they are known.

    Two kinds of failure are suspects at first. One that tells of a lost peer, or an abort that tells nothing, gives way
    to the peer's own. One by TERM
    or INT may be a cancel by a scheduler, which signals all processes of a step in any order: while that is open,
    no other failure ends the run either, since a rank may answer the same signal with any code.
    """

    def __init__(self, plan: Plan, paths: RunPaths, node_rank: int, host: str) -> None:
        self.decide_at: float | None = None
        self.hosts: Sequence[str] = ()
        self._plan = plan
        if plan.batch is not None:
            from worldsize.agent.launchers.batch_script import (
                batch_failure,  # now: the directory that we are in will change
            )

            self._batch_failure = batch_failure
        elif plan.launcher != "direct":
            from worldsize.agent.launchers.launcher_failures import launcher_failures

            self._launcher_failures = launcher_failures
        self._paths = paths
        self._node_rank = node_rank
        self._host = host
        self._oom_kills = oom_kills()
        self._suspect: Failure | None = None
        self._asked = False

    def failures(self, ended: EndedProcess, before: float | None = None) -> list[Failure]:
        """One for each of the process's ranks; a launcher, which stands for several, tells which one it was.

        `before` (Unix seconds): only those that failed by themselves earlier, as their exceptions tell.
        """
        if before is None:
            return self._failures(ended)
        if self._plan.batch is None:
            if not any(self._errors(ended)):
                return []  # nearly all of many ranks that were told to end
            ended = ended._replace(code=code_after_exception(ended.code))
        return [failure for failure in self._failures(ended) if failure.time < before]

    def _errors(self, ended: EndedProcess) -> list[dict[str, Any] | None]:
        told = ended.process.environment.get("TORCHELASTIC_ERROR_FILE")
        return [read_error(self._paths, rank, told) for rank in ended.process.ranks]

    def _failures(self, ended: EndedProcess) -> list[Failure]:
        oom = oom_kills() > self._oom_kills >= 0
        if self._plan.batch is not None:
            failure = self._batch_failure(self._plan, self._paths, self._host, ended.code, ended.time, oom)
            return [self._with_full_disk_reason(failure)]
        if self._plan.launcher != "direct":
            found = self._launcher_failures(self._plan, self._paths, self._node_rank, self.hosts, ended, oom)
        else:
            found = [
                rank_failure(rank, self._node_rank, self._host, ended.code, ended.time, error, oom)
                for rank, error in zip(ended.process.ranks, self._errors(ended))
            ]
        return [self._with_full_disk_reason(failure) for failure in found]

    def _with_full_disk_reason(self, failure: Failure) -> Failure:
        """A script's TERM may be srun's, whose words about the task that failed first found no room either."""
        ended = failure.reason == Reason.EXIT_CODE or (self._plan.batch is not None and failure.code == _TERM_CODE)
        full = ended and is_disk_full(self._paths.root)
        return with_storage_reason(failure, self._paths.root) if full else failure

    def consider(self, failures: list[Failure], now: float) -> Failure | None:
        """The failure to end the run for; None: there is none, or it must wait until `decide_at`."""
        if not failures:
            return None
        pending = [] if self._suspect is None else [self._suspect]
        first = min(pending + failures, key=precedence)
        self._asked = self._asked or any(each.code in _STOP_CODES for each in failures)
        if not self._asked and not may_follow(first):
            return first
        self._suspect = first
        self.decide_at = self.decide_at or now + SETTLE
        return None

    def overdue_failure(self, now: float) -> Failure | None:
        """The suspect that has waited long enough."""
        return self._suspect if self.decide_at is not None and now >= self.decide_at else None

    def drop(self) -> None:
        """The run is being ended: nothing is pending any more."""
        self._suspect = self.decide_at = None
