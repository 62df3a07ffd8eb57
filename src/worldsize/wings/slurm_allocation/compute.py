"""The compute inside an existing allocation (`salloc`, or a shell on one of its nodes): runs are steps of it.

The batch script that sbatch would otherwise get is executed here, detached. Its `srun` starts the agents on the
allocation's nodes. Several runs may share the allocation, also at the same time.
"""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import tempfile
import time
from collections.abc import Sequence

from worldsize.agent.posix import processes
from worldsize.common.numbers import parse_digits
from worldsize.compute.base import CheckResult, ComputeFacts, Handle, IdleCallback, Submission, load_node_commands
from worldsize.compute.local.leftovers import is_alive, may_be_signalled, remember_child
from worldsize.compute.slurm import preflight
from worldsize.compute.slurm.compute import SlurmCompute
from worldsize.compute.slurm.job_rows import UNANSWERED, JobRow
from worldsize.compute.slurm.queue import query_jobs
from worldsize.errors import SubmitAgain, SubmitRejected
from worldsize.jobspec.job import Job
from worldsize.plan.plan import Plan
from worldsize.plan.run_paths import RunPaths
from worldsize.state.records import Observation
from worldsize.trust.procfs import PASSWORD_VARIABLE, without_variables
from worldsize.wings.slurm_allocation.allocation_end import explained_end

TYPE_CHECKING = False
if TYPE_CHECKING:
    from worldsize.compute.capabilities import NodeCommand, NodeCommandStream

_KIND = "slurm-step"
_LOOK_EVERY = 0.25
_STARTS_WITHIN = 5.0


class AllocationCompute(SlurmCompute):
    capabilities = frozenset(("exec", "nodes", "script", "steps"))

    def facts(self, job: Job) -> ComputeFacts:
        """Return the ComputeFacts of the Slurm cluster, with the number of GPUs per node that this allocation has, if
        Slurm reports it."""
        gpus = parse_digits(self._environ.get("SLURM_GPUS_ON_NODE"))
        facts = super().facts(job)
        return facts if gpus is None else facts._replace(gpus_per_node=gpus)

    def check(self, job: Job, plan: Plan) -> list[CheckResult]:
        allocated = parse_digits(self._environ.get("SLURM_JOB_NUM_NODES"))
        if allocated is not None and len(plan.nodes) > allocated:
            what = "%d nodes are asked for, and this allocation (job %s) has %d"
            values = (len(plan.nodes), self._environ["SLURM_JOB_ID"], allocated)
            hint = "ask for fewer, or leave the allocation's shell"
            return [CheckResult("error", what % values, "resources.instance_count", hint)]
        missing = list(preflight.check_programs(self._environ))
        said = f"it runs inside the allocation that this shell belongs to: job {self._environ['SLURM_JOB_ID']}"
        return missing or [*self.check_locations(job), CheckResult("notice", said, id="not-checked")]

    def submit(self, submissions: Sequence[Submission]) -> list[Handle]:
        return [self._start(submission) for submission in submissions]

    def observe(self, handles: Sequence[Handle], idle: IdleCallback | None = None) -> list[Observation]:
        """Return the Observation of each run in the allocation. For a run whose srun on this host has ended, Slurm is
        queried afterwards: by then it knows why it has ended the allocation."""
        alive = [not _is_here(handle) or is_alive(handle) for handle in handles]
        rows = query_jobs((handle["job"] for handle, lives in zip(handles, alive, strict=True) if not lives), self._run)
        return [
            self._observe_living(handle) if lives else _observe_end(handle, rows[handle["job"]])
            for handle, lives in zip(handles, alive, strict=True)
        ]

    def pause(self, age: float, runs: int = 1, queued: bool = False) -> float:
        return _LOOK_EVERY

    def cancel(self, handles: Sequence[Handle], now: bool = False) -> None:
        for handle in handles:
            self._cancel(handle, now)

    def _cancel(self, handle: Handle, now: bool) -> None:
        """Cancel a run of the allocation; `now` means without grace. The run's step, found by its name, gets the
        signal: srun itself would turn a TERM into a KILL, without grace. If there is no step, or with `now` on the host
        that started the run, the run's process group there gets the signal."""
        here = _is_here(handle)
        if not (now and here) and self._cancel_step(handle, now, here):
            return
        if here and may_be_signalled(handle):
            processes.signal_group(handle["pid"], signal.SIGKILL if now else signal.SIGTERM)

    def _cancel_step(self, handle: Handle, now: bool, here: bool) -> bool:
        """Send KILL (`now`) or TERM to the Slurm step of a run. Return whether there was a step. If srun is `here`, on
        this host, return False if Slurm does not answer or refuses; otherwise that is an error."""
        try:
            return self._signal_step(handle, "KILL" if now else "TERM")
        except (SubmitAgain, SubmitRejected):
            if not here:
                raise
            return False

    def _signal_step(self, handle: Handle, name: str) -> bool:
        """Send the signal `name` to the Slurm step of a run. Retry if slurmd does not accept it, since it has not
        reported the step's start yet. Return whether there was a step."""
        deadline = time.monotonic() + _STARTS_WITHIN
        while (step := self._step(handle)) is not None:
            try:
                self._run(["scancel", "--signal=" + name, step])
                return True
            except SubmitRejected:
                if time.monotonic() > deadline:
                    raise
            time.sleep(_LOOK_EVERY)
        return False

    def end_remains(self, handle: Handle) -> int:
        alive = is_alive(handle) if _is_here(handle) else self._step(handle) is not None
        self._cancel(handle, now=True)
        return int(alive)

    def execute(self, handle: Handle | None, command: NodeCommand) -> NodeCommandStream:
        if handle is not None:
            return super().execute(handle, command)
        stream: NodeCommandStream = load_node_commands("slurm").execute_in_allocation(
            command, self._environ["SLURM_JOB_ID"], self.python, self._environ
        )
        return stream

    def _observe_living(self, handle: Handle) -> Observation:
        """Return the observation of a run that has not visibly ended. From another host than the one that started the
        run, Slurm is queried whether the allocation still exists and has a step with the run's name."""
        if _is_here(handle):
            return Observation("running")
        job = handle["job"]
        row = query_jobs([job], self._run)[job]
        if row.seen == UNANSWERED:
            return Observation("unknown", message=f"Slurm does not answer: {row.trouble}")
        if row.state not in ("RUNNING", "SUSPENDED", "COMPLETING"):
            gone = Observation("absent", message=f"its allocation (job {job}) has ended", over=True)
            return explained_end(gone, row, _last_words(handle), time.time())
        if self._step(handle) is not None:
            return Observation("running")
        return Observation("unknown", message=f"it has no step in job {job} now; {handle['host']} started it")

    def _step(self, handle: Handle) -> str | None:
        """Return the id of the Slurm step in the allocation that has the run's name; None if there is none, or the
        allocation is gone."""
        asked = ["squeue", "--noheader", "--steps", "--local", "--jobs=" + handle["job"], "--format=%i %j"]
        try:
            steps = [line.split(None, 1) for line in self._run(asked).splitlines()]
        except SubmitRejected:
            return None  # the job does not exist any more
        return next((step[0] for step in steps if step[1:] == [handle["run_id"]]), None)

    def _start(self, submission: Submission) -> Handle:
        environ = without_variables(self._environ, ("SLURM_RESTART_COUNT", PASSWORD_VARIABLE, *submission.plan.secrets))
        element = submission.plan.array
        environ.update(SLURM_OVERLAP="1", SLURM_ARRAY_TASK_ID=str(element.element) if element else "")
        flags, mode = os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o666 & ~submission.plan.umask
        with tempfile.TemporaryFile() as script, open(os.open(submission.paths.batch_log, flags, mode), "ab") as log:
            script.write(submission.payload.script.encode("utf-8", "surrogateescape"))
            script.seek(0)
            child = subprocess.Popen(
                ["bash", f"/dev/fd/{script.fileno()}"],
                env=environ,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                pass_fds=(script.fileno(),),
                start_new_session=True,
            )
        remember_child(child.pid)
        return {
            "type": _KIND,
            "job": self._environ["SLURM_JOB_ID"],
            "python": self.python,
            "pid": child.pid,
            "start_time": processes.start_time(child.pid),
            "host": socket.gethostname(),
            "run_id": submission.plan.run_id,
            "run_dir": submission.paths.root,
        }


def _observe_end(handle: Handle, allocation: JobRow) -> Observation:
    """Return the observation of a run whose srun on this host is gone: ended, with the reason if Slurm has ended its
    allocation. `allocation` is Slurm's row about that."""
    gone = Observation("absent", message=f"its srun (process {handle['pid']}) has ended", over=True)
    return explained_end(gone, allocation, _last_words(handle), time.time())


def _last_words(handle: Handle) -> float:
    """Return the time of the last output of a run's srun, in Unix seconds by the clock that dates the run's files; 0 if
    it is unknown."""
    try:
        return os.stat(RunPaths(handle["run_dir"]).batch_log).st_mtime
    except OSError:
        return 0.0


def _is_here(handle: Handle) -> bool:
    return bool(handle["host"] == socket.gethostname())
