"""What a compute is: seven methods, each with its guarantee, and no job state of its own."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple, Protocol

from worldsize.plan.launch import Plan
from worldsize.plan.paths import RunPaths
from worldsize.spec.job import Job
from worldsize.state.records import Observation

Handle = Mapping[str, Any]
"""A compute's native id of a submission, as JSON: it is kept in handle.json and outlives the process."""


class ComputeFacts(NamedTuple):
    """What planning needs to know of a compute.

    gpus_per_node   None where nobody knows
    cores_per_node  of one (virtual) node; None where only the node itself will know
    shared_host     all nodes are this one machine: they share its cores
    """

    gpus_per_node: int | None = None
    cores_per_node: int | None = None
    shared_host: bool = False


class CheckResult(NamedTuple):
    """One preflight finding. `level` is "error" (the run would fail) or "notice"."""

    level: str
    what: str
    where: str | None = None
    hint: str | None = None


class Submission(NamedTuple):
    """Exactly what will be sent. `preview` is readable and complete; `payload` is the compute's own."""

    plan: Plan
    paths: RunPaths
    preview: str
    payload: Any = None


class Compute(Protocol):
    """A named place to run.

    name          as the configuration calls it
    capabilities  flags; "local": the run's processes are on this machine
    """

    name: str
    capabilities: frozenset[str]

    def facts(self, job: Job) -> ComputeFacts:
        """What planning needs. Reads only; cheap."""

    def check(self, job: Job, plan: Plan) -> list[CheckResult]:
        """Everything that would go wrong, all at once. Reads only; never raises for an expected problem."""

    def render(self, plan: Plan, paths: RunPaths) -> Submission:
        """Pure: the same plan gives the same bytes."""

    def submit(self, submissions: Sequence[Submission]) -> list[Handle]:
        """The sole creator of native jobs. On return the native ids are known.

        SubmitRejected: refused for good. SubmitAgain: nothing was created, trying again is safe. The run id travels
        in the native job's name, so that a lost reply is found again.
        """

    def observe(self, handles: Sequence[Handle]) -> list[Observation]:
        """One observation per handle, from one query for all. "absent" is said, and never means that it succeeded."""

    def cancel(self, handle: Handle, now: bool = False) -> None:
        """Ask for the end; does not wait. Harmless when repeated, and on a run that has ended. `now`: without grace."""

    def end_remains(self, handle: Handle) -> int:
        """End at once what a run that is over may have left where we can reach it; how many processes that were."""
