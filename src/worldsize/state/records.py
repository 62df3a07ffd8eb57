"""The records that runs leave behind: exit records, the native job's observation, the result.

Standard library only: travels inside agent.pyz (Python >= 3.8).
"""

from __future__ import annotations

from worldsize.common.named_tuple import Any, NamedTuple


class RunState:
    """The states of a run. The first six states are transient, the last four final."""

    CREATED = "CREATED"
    PREPARING = "PREPARING"
    QUEUED = "QUEUED"
    STARTING = "STARTING"
    RUNNING = "RUNNING"
    STOPPING = "STOPPING"
    SUCCEEDED = "SUCCEEDED"
    FAILED = "FAILED"
    CANCELLED = "CANCELLED"
    LOST = "LOST"

    FINAL = frozenset((SUCCEEDED, FAILED, CANCELLED, LOST))


class Reason:
    """The reasons why a run did not succeed."""

    EXIT_CODE = "EXIT_CODE"
    SIGNAL = "SIGNAL"
    OUT_OF_MEMORY = "OUT_OF_MEMORY"
    TIME_LIMIT = "TIME_LIMIT"
    PREEMPTED = "PREEMPTED"
    NODE_FAILURE = "NODE_FAILURE"
    HANG = "HANG"
    RENDEZVOUS = "RENDEZVOUS"
    STORAGE = "STORAGE"
    SUBMIT_REJECTED = "SUBMIT_REJECTED"
    ENVIRONMENT = "ENVIRONMENT"
    CANCELLED_BY_USER = "CANCELLED_BY_USER"
    DEPENDENCY = "DEPENDENCY"
    LEFT_OUT = "LEFT_OUT"
    DAMAGED = "DAMAGED"
    """The reason of a LOST run, followed by the name of the damaged file: `DAMAGED: plan.json`."""


class Failure(NamedTuple):
    """The first failure of a run. `rank` is None if a whole node failed. Times are Unix seconds.

    code    the rank's exit code, 128+N for signal N
    """

    reason: str
    message: str
    node_rank: int | None = None
    rank: int | None = None
    code: int = 1
    time: float = 0.0


class RankExit(NamedTuple):
    """The end of one rank. `code` is its exit code, 128+N for signal N. `stopped` is whether the agent had signalled it
    to end."""

    rank: int
    code: int
    started: float
    ended: float
    stopped: bool = False


class RunWarning(NamedTuple):
    """A fact that casts doubt on the success of a run whose ranks ended with 0. `rank` is the rank that it concerns, if
    known.

    id      "uncaught-exception", "failed-step" (of a batch script) or "ended-leftover"
    """

    id: str
    text: str
    rank: int | None = None


class ExitRecord(NamedTuple):
    """The last record of one node's agent.

    host    "" if there was no agent, and the record comes from a service's report on the end of the run
    stop    None for ranks that all ended by themselves; otherwise why the agent stopped them:
            "failure" | "cancel" | "timeout" | "hang" | "head-lost" | "node-lost" | "conductor-lost" | "agent-lost" |
            "starter-lost" | "storage" | "deleted" | "complete" (the ranks with which the run is over had ended with 0)
    failure the first failure of the whole run, as far as this node knows
    code    the agent's own exit code: the first failure's, on every node
    without the nodes that were lost and without which the run continued, as recorded by its head
    warnings facts that cast doubt on the success of ranks that ended with 0
    """

    node_rank: int
    host: str
    attempt: int
    started: float
    ended: float
    ranks: tuple[RankExit, ...]
    stop: str | None
    failure: Failure | None
    code: int
    without: tuple[int, ...] = ()
    warnings: tuple[RunWarning, ...] = ()

    def to_json(self) -> dict[str, Any]:
        """Return the exit record as a JSON object for its file. `code` comes last, where batch scripts look for it."""
        value = self._asdict()
        value["ranks"] = [rank._asdict() for rank in self.ranks]
        value["failure"] = self.failure._asdict() if self.failure else None
        value["warnings"] = [warning._asdict() for warning in self.warnings]
        value["code"] = value.pop("code")
        return value


class Observation(NamedTuple):
    """The report of a compute on one native job.

    phase     "queued" | "running" | "ended" | "absent" | "unknown"; absent never means ended
    reason    the compute's own verdict on a kill (a `Reason`), if it has one
    code      the native exit code of an ended job, if known
    over      no process is left that could write another record
    restarts  how many times the compute has put the native job back into its queue
    counted   restarts are attempts; otherwise agents count the restarts that they have begun
    started   when its present attempt started there (Unix seconds), if known
    stuck     it is queued, and will not start without intervention
    ending    it is running only in that its nodes are still being cleaned up
    """

    phase: str
    reason: str | None = None
    code: int | None = None
    message: str = ""
    over: bool = False
    restarts: int = 0
    started: float | None = None
    stuck: bool = False
    ending: bool = False
    counted: bool = True


class Status(NamedTuple):
    """The status of a run, computed from everything known about it.

    exit_code   None while it is not final; then the exit code of `run` and `wait`
    warnings    for a run that succeeded: facts that cast doubt on that
    """

    state: str
    reason: str | None = None
    exit_code: int | None = None
    message: str = ""
    failure: Failure | None = None
    started: float | None = None
    ended: float | None = None
    warnings: tuple[RunWarning, ...] = ()

    @property
    def final(self) -> bool:
        return self.state in RunState.FINAL
