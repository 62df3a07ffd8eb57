"""The records that runs leave behind: exit records, the native job's observation, the result.

Standard library only: travels inside agent.pyz (Python >= 3.8).
"""

from __future__ import annotations

from worldsize.common.named_tuple import Any, NamedTuple


class RunState:
    """Where a run stands. The first six states are on the way, the last four final."""

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
    """Why a run did not succeed."""

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
    """For a LOST run, followed by the name of the file that says nothing: `DAMAGED: plan.json`."""


class Failure(NamedTuple):
    """The first thing that went wrong. `rank` is None where a whole node failed; times are Unix seconds.

    code    the rank's exit code, 128+N for signal N
    """

    reason: str
    message: str
    node_rank: int | None = None
    rank: int | None = None
    code: int = 1
    time: float = 0.0


class RankExit(NamedTuple):
    """How one rank ended. `code` is its exit code, 128+N for signal N; `stopped`: whether the agent had told it to
    end."""

    rank: int
    code: int
    started: float
    ended: float
    stopped: bool = False


class RunWarning(NamedTuple):
    """What speaks against the success of a run whose ranks ended with 0. `rank`: whose it is, if known.

    id      "uncaught-exception", "failed-step" (of a batch script) or "ended-leftover"
    """

    id: str
    text: str
    rank: int | None = None


class ExitRecord(NamedTuple):
    """What one node's agent wrote last.

    host    "" where no agent was there, and a service's word for the end of the run stands in its place
    stop    None for ranks that all ended by themselves; otherwise why the agent stopped them:
            "failure" | "cancel" | "timeout" | "hang" | "head-lost" | "node-lost" | "conductor-lost" | "agent-lost" |
            "starter-lost" | "storage" | "deleted" | "complete": those that the run is over with had ended with 0
    failure the first failure of the whole run, as far as this node knows
    code    the agent's own exit code: the first failure's, on every node
    without the nodes that were lost and that the run went on without, as its head tells
    warnings what speaks against the success of ranks that ended with 0
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
        """`code` comes last, where batch scripts look for it."""
        value = self._asdict()
        value["ranks"] = [rank._asdict() for rank in self.ranks]
        value["failure"] = self.failure._asdict() if self.failure else None
        value["warnings"] = [warning._asdict() for warning in self.warnings]
        value["code"] = value.pop("code")
        return value


class Observation(NamedTuple):
    """What a compute says of one native job.

    phase     "queued" | "running" | "ended" | "absent" | "unknown"; absent never means ended
    reason    the compute's own verdict on a kill (a `Reason`), where it gives one
    code      the native exit code of an ended job, where known
    over      nobody is left who could write one more record
    restarts  how many times the compute has put the native job back into its queue
    counted   restarts are attempts; otherwise agents count those that they have begun
    started   when its present attempt started there (Unix seconds), where known
    stuck     it is queued, and will not start unless somebody does something
    ending    it is running in so far as its nodes are still being cleaned up
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
    """A run's status, folded from everything known.

    exit_code   None while it is not final; then what `run` and `wait` exit with
    warnings    for a run that succeeded: what speaks against it
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
