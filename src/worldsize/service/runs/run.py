"""A run for Python and the command line: its status, waiting for it, its output, and cancelling it."""

from __future__ import annotations

import os
import time
from collections.abc import Iterator, Mapping, Sequence

from worldsize.common.atomic_files import read_file
from worldsize.common.json_values import PARSE_ERRORS
from worldsize.common.named_tuple import Any, cast
from worldsize.compute.base import Compute, Handle, IdleCallback
from worldsize.errors import DamagedRun, NotFound, UsageError, WorldsizeError
from worldsize.plan.array import array_of
from worldsize.plan.plan import Plan
from worldsize.plan.run_paths import RunPaths, latest_attempt
from worldsize.service.computes import compute_of_run
from worldsize.service.runs import status as run_status
from worldsize.service.runs.submitted import SubmittedRuns, size_text
from worldsize.state.records import Observation, RunState, Status
from worldsize.state.summary import run_summary

TYPE_CHECKING = False
if TYPE_CHECKING:
    from worldsize.compute.capabilities import CanExplain, HasUsage, Usage, WaitExplanation

_LOOK_EVERY = 0.25
_PAUSE = 0.1
_NOTICED_WITHIN = 3.0
_TOLD_WITHIN = 6.0
SHORTEST_MEASURED = 60.0
"""Shortest duration, in seconds, of an attempt whose efficiency is reported."""


class RunOutput:
    """A named output of a run. `path` can be used as `Input.path` of the next job."""

    def __init__(self, name: str, path: str) -> None:
        self.name = name
        self.path = path

    def __repr__(self) -> str:
        return f"RunOutput({self.name!r}, {self.path!r})"


class RunOutputs(Mapping[str, RunOutput]):
    """The named outputs of a run, by key or attribute: `run.outputs["model"].path`, `run.outputs.model.path`.

    `run.outputs.path` is the directory that the command used as `./outputs`.
    """

    def __init__(self, path: str, outputs: Mapping[str, str]) -> None:
        self.path = path
        self._outputs = {name: RunOutput(name, where) for name, where in outputs.items()}

    def __getitem__(self, name: str) -> RunOutput:
        return self._outputs[name]

    def __getattr__(self, name: str) -> RunOutput:
        output: RunOutput | None = self.__dict__.get("_outputs", {}).get(name)
        if output is None:
            raise AttributeError(f"the run has no output called {name!r}")
        return output

    def __iter__(self) -> Iterator[str]:
        return iter(self._outputs)

    def __len__(self) -> int:
        return len(self._outputs)


class Run(SubmittedRuns):
    """A single submission of a job, as `submit()` and `open_run()` return it."""

    noun = "run"

    def __init__(self, paths: RunPaths, environ: Mapping[str, str]) -> None:
        super().__init__(latest_attempt(paths), environ)
        self._plan: Plan | None = None
        self._compute: Compute | None = None
        self._handle: Handle | None = None

    @property
    def plan(self) -> Plan:
        """The plan of the run. Raise NotFound while the run is being prepared or after its directory was deleted,
        DamagedRun if the file is damaged, WorldsizeError if it cannot be read."""
        if self._plan is None:
            try:
                self._plan = run_status.read_plan(self.paths)
            except OSError as error:
                raise WorldsizeError(f"cannot be read: {error.strerror or error}", self.paths.plan) from None
        if self._plan is None:
            raise NotFound("the run has no plan (yet)", self.paths.root, "it is being prepared, or was interrupted")
        return self._plan

    common = plan

    def _recorded_facts(self) -> list[str]:
        return [run_status.recorded_state(latest_attempt(self.paths), self.plan), size_text(*self.size)]

    @property
    def size(self) -> tuple[int, int]:
        """The number of nodes, and the number of ranks on all nodes together."""
        return len(self.plan.nodes), self.plan.world_size

    def runs(self) -> list[Run]:
        """Return a list with this run as its only item."""
        return [self]

    def statuses(self, idle: IdleCallback | None = None) -> list[Status]:
        return [self.look(idle=idle)]

    def overall(self, statuses: Sequence[Status]) -> Status:
        return statuses[0]

    def look(self, seen: Observation | None = None, idle: IdleCallback | None = None) -> Status:
        """Return the status of the run now, computed from its directory and from what its compute reports. A damaged
        run raises nothing: its status is LOST, with a message about the damage. Raise WorldsizeError if the directory
        cannot be read.

        `seen` is an observation that the compute has just made of the run. If it is None, the compute is queried, and
        `idle` is called while it has not answered.
        """
        if not os.path.isdir(self.paths.root):
            return self._deleted_status()
        self.paths = latest_attempt(self.paths)
        if self._plan is None and not os.path.exists(self.paths.plan):
            return run_status.preparing_status(self.paths)
        try:
            plan = self.plan
        except WorldsizeError as error:
            return run_status.damaged_status(self.paths, error)
        try:
            return run_status.refresh_status(self.paths, self.compute, plan, seen, idle)
        except PARSE_ERRORS as error:
            return run_status.damaged_status(self.paths, error)
        except OSError as error:
            if os.path.isdir(self.paths.root):
                raise WorldsizeError(f"cannot be read: {error.strerror}", error.filename or self.paths.root) from None
            return self._deleted_status()

    def _deleted_status(self) -> Status:
        return Status(RunState.LOST, exit_code=1, message=f"its run directory was deleted: {self.paths.root}")

    @property
    def compute(self) -> Compute:
        """The compute that has the run. Raise ConfigError if this configuration has no compute of that name."""
        if self._compute is None:
            self._compute = compute_of_run(self.paths.root, self.native(), self.plan.compute, self.environ)
        return self._compute

    def offers(self, capability: str) -> bool:
        """Return whether the run's compute has the capability named `capability`, such as "usage"; False also for a run
        that has not been submitted, or is damaged."""
        try:
            return self.has_plan() and self.native() is not None and capability in self.compute.capabilities
        except WorldsizeError:
            return False

    def native(self) -> Handle | None:
        """Return the native id (handle) by which the compute knows the run, such as a scheduler's job id; None while it
        has none. Raise DamagedRun if the file with the id is damaged."""
        if self._handle is None or "queue" in self._handle:  # this one is the native id only until the run starts
            self._handle = run_status.read_native_handle(self.paths)
        return self._handle

    def recorded_statuses(self) -> list[Status] | None:
        told = run_status.status_from_records(self.paths, self.plan, self.native())
        return [told] if told is not None else None

    def pause(self, statuses: Sequence[Status], age: float | None, took: float = 0.0) -> float:
        if age is None or self.native() is None:
            return _LOOK_EVERY
        return self.compute.pause(age, queued=statuses[0].state == RunState.QUEUED)

    def is_near_end(self) -> bool:
        """Return whether the run may end at any moment: the agent of its head node has written its exit record, or a
        cancellation has been requested."""
        return os.path.exists(self.paths.exit_record(0)) or os.path.exists(self.paths.cancel)

    def end_after_deletion(self) -> None:
        """End a run that was opened before its directory was deleted. First wait for its agents, which notice the
        deletion and end the run with its grace period; then end what remains."""
        handle = self.native()
        if handle is None:
            return
        deadline = time.monotonic() + self.plan.grace + _NOTICED_WITHIN
        while self.compute.observe([handle])[0].phase == "running" and time.monotonic() < deadline:
            time.sleep(_PAUSE)
        self.end_remains()

    def wait_for_notify(self) -> None:
        """Wait, for at most a few seconds, until the command set with `notify` has been executed after the end of a
        local run. Without this wait, the command would be lost where this process is the first of a container or of a
        scheduler's job."""
        handle = self.native() if self.has_plan() and self.plan.notify else None
        if handle is None or "local" not in self.compute.capabilities or not self.look().final:
            return
        deadline = time.monotonic() + _TOLD_WITHIN
        while self.compute.observe([handle])[0].phase == "running" and time.monotonic() < deadline:
            time.sleep(_PAUSE)

    def logs(self, rank: int | None = None) -> str:
        """Return the output of the rank `rank` as text, with bytes that are not UTF-8 replaced. If `rank` is None,
        return the output of all ranks, merged, each line with the prefix of its rank. Raise UsageError if there is no
        such rank."""
        from worldsize.logs.merged_log import LogFollower
        from worldsize.logs.tail import read_text

        if rank is not None:
            if not 0 <= rank < self.plan.world_size:
                raise UsageError(f"there is no rank {rank!r}", None, f"ranks are 0 to {self.plan.world_size - 1}")
            return read_text(self.paths.rank_log(rank))
        texts: list[str] = []
        LogFollower(self.paths, self.plan.nodes, None, "off", None, texts.append, time.monotonic, live=False).finish()
        return "".join(texts)

    @property
    def outputs(self) -> RunOutputs:
        """The paths of the job's outputs: the directory `./outputs` of the command and each named output. They may be
        read before the run has ended."""
        from worldsize.jobspec.paths import output_path
        from worldsize.jobspec.reading.job_file import load_job

        job = load_job(self.paths.job).job
        return RunOutputs(
            self.paths.outputs, {name: output_path(self.paths, name, output) for name, output in job.outputs.items()}
        )

    def cancel(self, now: bool = False) -> Status:
        """Request the end of the run without waiting for it; return its status. `now` sends KILL without a grace
        period. For a run that has already ended, only end its remaining processes, as `end_remains` does.

        Raise the compute's error if it cannot cancel; the run then continues. Raise UsageError for another user's run.
        """
        before = super().cancel(now)
        return before if before.final else self.look()

    def _cancel_on_compute(self, now: bool) -> None:
        self.refuse_foreign("cancel")  # checks the directory again, right before the action
        handle = self.native()
        if handle is not None:
            self.compute.cancel([handle], now)

    def end_remains(self) -> int:
        """Kill at once the processes that a run may have left after its end; return their number. If the run's
        directory was damaged, or deleted since it was first looked at, the processes are searched for on this machine.
        Nothing is killed for another user's run, whose files may name any process here, nor for a run whose directory
        did not exist when it was opened: it may belong to another user a moment later."""
        if not self._own:
            return 0
        try:
            handle = self.native()
            if handle is not None:
                return self.compute.end_remains(handle)
        except (WorldsizeError, OSError, *PARSE_ERRORS):
            pass  # neither compute nor files are usable: search for its processes here
        from worldsize.compute.local.leftovers import kill_leftovers

        return kill_leftovers(self.id, self.paths.root)

    def end_deleted(self) -> int:
        """Kill at once the processes of a run whose directory is gone and of which the user has given only the id;
        return the number of processes."""
        from worldsize.compute.local.leftovers import kill_leftovers

        return 0 if self._foreign else kill_leftovers(self.id, None)

    def summary(self, statuses: Sequence[Status] | None = None) -> dict[str, Any]:
        """Return the mapping that `worldsize list -o json` prints about the run. The status is the first of `statuses`,
        or the current one."""
        return run_summary(self.plan, statuses[0] if statuses else self.look())

    def wait_explanation(self, status: Status, seconds: float) -> WaitExplanation | None:
        """Return the compute's explanation why the run waits in a queue, found within about `seconds` seconds; None if
        `status` is not QUEUED, or no explanation is available now."""
        handle = self.native() if status.state == RunState.QUEUED else None
        if handle is None or "explain" not in self.compute.capabilities:
            return None
        try:
            secrets = self.plan.secrets if self.has_plan() else ()
            script = self._submission_text() if self.is_own else ""
            return cast("CanExplain", self.compute).explain(handle, script, seconds, secrets)
        except WorldsizeError:
            return None

    def _submission_text(self) -> str:
        """Return the text of the batch script that was submitted for the run, which for an element of an array is that
        of the array; "" if it cannot be read."""
        place = array_of(self.paths)
        try:
            return read_file(RunPaths(place[0]).submission if place else self.paths.submission).decode("utf-8")
        except (OSError, ValueError):
            return ""

    def is_measured(self, status: Status) -> bool:
        """Return whether the run has ended, its plan enabled sampling by the agents, and it took long enough for a
        report on its efficiency."""
        if not status.final or status.started is None or status.ended is None:
            return False
        is_long = status.ended - status.started >= SHORTEST_MEASURED
        return is_long and status.state != RunState.LOST and self.has_plan() and self.plan.metrics

    def usage(self, statuses: Sequence[Status], patience: float = 0.0) -> Usage | None:
        """Return the resources that an ended run used, as its compute counts them; None if the run has not ended, or
        the compute does not count, or has not counted within `patience` seconds."""
        try:
            handle = self.native() if statuses[0].final and self.has_plan() else None
        except DamagedRun:
            return None
        if handle is None or "usage" not in self.compute.capabilities:
            return None
        return cast("HasUsage", self.compute).usage([handle], patience)[0]
