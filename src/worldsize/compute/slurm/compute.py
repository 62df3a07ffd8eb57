"""Compute for a Slurm cluster, used from its login node. It needs only sbatch, squeue, sacct, scancel and a shared
directory."""

from __future__ import annotations

import os
import sys
from collections.abc import Collection, Mapping, Sequence
from functools import partial

from worldsize.common.atomic_files import read_file, write_bytes
from worldsize.common.digests import digest_of
from worldsize.common.named_tuple import Any, NamedTuple
from worldsize.compute.base import (
    CheckResult,
    Compute,
    ComputeFacts,
    EmbeddedFiles,
    Handle,
    IdleCallback,
    Submission,
    load_node_commands,
)
from worldsize.compute.slurm import options
from worldsize.compute.slurm.commands import run_slurm
from worldsize.compute.slurm.job_rows import fold_job_ids
from worldsize.compute.slurm.observe import observation
from worldsize.compute.slurm.queue import is_inside_allocation, query_jobs, query_pause
from worldsize.compute.slurm.script import BatchScriptParts, pack, render
from worldsize.compute.slurm.script_trust import trusted_components
from worldsize.compute.slurm.submission import submit_script
from worldsize.errors import SubmitRejected
from worldsize.jobspec.config.config import ComputeSettings
from worldsize.jobspec.job import Input, Job
from worldsize.jobspec.paths import is_remote
from worldsize.plan.launchers import launcher_facts
from worldsize.plan.plan import Plan
from worldsize.plan.run_paths import RunPaths
from worldsize.plan.secrets_file import plan_secret_values
from worldsize.registry import find_module, load_module
from worldsize.state.records import Observation
from worldsize.trust.directories import make_private_directory
from worldsize.trust.procfs import without_variables
from worldsize.trust.secrets import mask_argv, mask_text, mask_values

TYPE_CHECKING = False
if TYPE_CHECKING:
    from worldsize.compute.capabilities import ComputeNode, NodeCommand, NodeCommandStream, Usage, WaitExplanation

_REPORTS = "wings.slurm_reports.reports"
"""Module of `nodes`, `explain` and `usages`. Runs work without it, but why they wait and what they used is then not
reported."""

_JOBS_PER_SCANCEL = 500
_KEPT_SIZE = 1 << 16

KEPT = (
    "SLURM_JOB_ID", "SLURM_JOBID", "SLURM_JOB_NAME", "SLURM_JOB_PARTITION", "SLURM_JOB_ACCOUNT", "SLURM_JOB_QOS",
    "SLURM_JOB_NODELIST", "SLURM_JOB_START_TIME", "SLURM_JOB_END_TIME", "SLURM_RESTART_COUNT", "SLURM_ARRAY_JOB_ID",
    "SLURM_CLUSTER_NAME", "SLURM_SUBMIT_HOST", "SLURM_SUBMIT_DIR", "SLURM_CPUS_ON_NODE", "SLURM_GPUS_ON_NODE",
)  # fmt: skip
"""Variables that hold for every rank of the job, regardless of the process that starts it. SLURM_TASKS_PER_NODE is not
among them: with it, a plain mpirun of the script would use the allocation as its own."""


class Payload(NamedTuple):
    """Slurm's part of a submission. `script` is written to sbatch's standard input. `signal` is the number of seconds
    before the time limit at which the ranks are signalled. `dependency` is the dependency option of the job itself."""

    script: str
    signal: int | None
    dependency: str | None


class SlurmCompute:
    capabilities = frozenset(
        ("access", "after", "array", "exec", "explain", "nodes", "queue", "requeue", "script", "steps", "usage")
    )
    group_noun = "partitions"

    def __init__(self, settings: ComputeSettings, home: str, environ: Mapping[str, str]) -> None:
        self.name = settings.name
        self._settings = settings
        self._home = home
        self._environ = environ
        self._run = partial(run_slurm, environ=environ)

    def facts(self, job: Job) -> ComputeFacts:
        own = self._settings.options
        gpus = options.gpus_per_node(self._merged_options(job))
        modules, setup = own.get("modules", ()), own.get("setup", ())
        return ComputeFacts(gpus, kept=KEPT, modules=modules, setup=setup)

    def check(self, job: Job, plan: Plan) -> list[CheckResult]:
        from worldsize.compute.slurm import preflight

        missing = list(preflight.check_programs(self._environ))
        if missing:
            return missing
        said, gpus = self._options(job, plan), options.gpus_per_node(self._merged_options(job))
        environ = without_variables(self._environ, plan.secrets)
        found = preflight.check_slurm(said, gpus, environ, self._run)
        return [
            *self.check_locations(job),
            *preflight.check_secrets(plan, said),
            *(self._with_settings_key(each, job) for each in found),
            *preflight.check_grace(plan.grace, self._run),
            *(preflight.check_pmix(self._run) if launcher_facts(plan.launcher).step_program else ()),
        ]

    def _with_settings_key(self, found: CheckResult, job: Job) -> CheckResult:
        """Return the CheckResult `found` about a Slurm option, which its `where` names as `slurm.KEY`. If the option
        was set in the compute's table of worldsize.toml and not by the job, the result's `where` names the key there
        (`compute.NAME.KEY`)."""
        _, _, key = (found.where or "").partition("slurm.")
        is_own = key in self._settings.options or (key == "gpus_per_node" and self._settings.gpus_per_node)
        return found._replace(where=f"compute.{self.name}.{key}") if is_own and key not in job.slurm else found

    def check_access(self) -> list[CheckResult]:
        from worldsize.compute.slurm import preflight

        return [*preflight.check_programs(self._environ), *self.check_locations(Job())]

    def check_locations(self, job: Job) -> list[CheckResult]:
        """Check that the nodes can see the runs directory, the local paths of the job's inputs and the Python
        interpreter, and return the problems as a list of CheckResult."""
        from worldsize.compute.slurm import preflight

        given = {name: value.path for name, value in job.inputs.items() if isinstance(value, Input)}
        inputs = {name: path for name, path in given.items() if path and not is_remote(path)}
        runs_dir = self._settings.own_runs_dir or self._home
        return [*preflight.check_directories(runs_dir, inputs), *preflight.check_python(self.python)]

    def render(self, job: Job, plan: Plan, paths: RunPaths, files: EmbeddedFiles) -> Submission:
        asked = self._merged_options(job)
        said = self._options(job, plan)
        signal = options.signal_of(asked["signal"])[1] if "signal" in asked else None
        links, runs = os.path.join(self._home, "runs"), os.path.dirname(paths.root)
        if plan.array:
            runs = os.path.dirname(runs)
        python, code = plan.interpreter or self.python, job.code
        chosen = [*plan.named, *([python] if os.sep in python else []), *([code] if code else [])]
        script = BatchScriptParts(
            plan=plan,
            paths=paths,
            options=said,
            python=python,
            code=code,
            links=links,
            files={name: self._packed(data) for name, data in files().items()},
            signal=signal,
            trusted=trusted_components(runs, chosen),
            makes_runs=runs == links,
        )
        text = shown = render(script)
        secrets = plan_secret_values(plan)
        setup = tuple(mask_text(mask_values(line, secrets)) for line in plan.setup)
        step = tuple(mask_argv(mask_values(list(plan.step), secrets)))
        options_shown = [(name, value and mask_text(mask_values(value, secrets))) for name, value in said]
        if (setup, step) != (plan.setup, plan.step) or options_shown != said:
            shown = render(script._replace(plan=plan._replace(setup=setup, step=step), options=options_shown))
        return Submission(plan, paths, shown, Payload(text, signal, dict(said).get("dependency")))

    def _packed(self, data: bytes) -> bytes:
        """Return `data`, the content of a file that is embedded in the batch script, in compressed form (`pack`). Data
        of 64 KiB or more, which is the same in each run, is compressed once and kept in the cache of the worldsize
        home."""
        if len(data) < _KEPT_SIZE:
            return pack(data)
        cache = os.path.join(self._home, "cache")
        path = os.path.join(cache, f"packed-{digest_of(data)}.gz")
        make_private_directory(cache, follow=True)
        if not os.path.exists(path):
            write_bytes(path, pack(data))
        return read_file(path)

    def submit(self, submissions: Sequence[Submission]) -> list[Handle]:
        first = submissions[0]
        payload, place = first.payload, first.plan.array
        name = place.run_id if place else first.plan.run_id
        log = (first.paths.root.removesuffix("0") + "%a" if place else first.paths.root) + "/batch.log"
        argv = ["sbatch", "--parsable", "--open-mode=append", "--output=" + log]
        if place:
            argv.append(f"--array=0-{place.elements - 1}" + (f"%{place.at_once}" if place.at_once else ""))
        argv += _dependency_option(first)
        environ = without_variables(self._environ, first.plan.secrets)
        job = submit_script(argv, payload.script, name, environ, first.plan.umask)
        jobs = [f"{job}_{element}" for element in range(len(submissions))] if place else [job]
        return [
            {
                "type": "slurm",
                "job": each,
                "run_id": submission.plan.run_id,
                "name": name,
                "signal": payload.signal,
                "python": submission.plan.interpreter or self.python,
            }
            for each, submission in zip(jobs, submissions, strict=True)
        ]

    def observe(self, handles: Sequence[Handle], idle: IdleCallback | None = None) -> list[Observation]:
        run = partial(run_slurm, environ=self._environ, idle=idle) if idle else self._run
        rows = query_jobs([handle["job"] for handle in handles], run)
        return [
            observation(rows[handle["job"]], name=handle.get("name"), signal_before=handle.get("signal"))
            for handle in handles
        ]

    def pause(self, age: float, runs: int = 1, queued: bool = False) -> float:
        return query_pause(age, runs, queued)

    def cancel(self, handles: Sequence[Handle], now: bool = False) -> None:
        """Cancel the Slurm jobs of `handles` with scancel; jobs that have already ended are ignored. Slurm sends TERM
        to every process of a job, and the agents apply the grace period. If `now`, Slurm sends KILL first, which leaves
        the agents no grace period."""
        jobs = fold_job_ids(handle["job"] for handle in handles)
        for start in range(0, len(jobs), _JOBS_PER_SCANCEL):
            if now:
                self._scancel("--signal=KILL", *jobs[start : start + _JOBS_PER_SCANCEL])
            self._scancel(*jobs[start : start + _JOBS_PER_SCANCEL])

    def end_remains(self, handle: Handle) -> int:
        if self.observe([handle])[0].phase not in ("queued", "running"):
            return 0
        self.cancel([handle], now=True)
        return 1

    def requeue(self, handle: Handle, attempt: int) -> None:
        """Put the Slurm job of `handle` back into the queue with `scontrol requeue`. `attempt` is not used, since Slurm
        counts the attempts itself. Slurm forgets a job some minutes after its end."""
        self._run(["scontrol", "requeue", handle["job"]])

    def nodes(self) -> list[ComputeNode]:
        said = self._settings.options.get("partition", ())
        partitions = said.split(",") if isinstance(said, str) else said
        found: list[ComputeNode] = load_module(_REPORTS, "listing Slurm's nodes").nodes(self._environ, partitions)
        return found

    def execute(self, handle: Handle | None, command: NodeCommand) -> NodeCommandStream:
        commands = load_node_commands("slurm")
        stream: NodeCommandStream = (
            commands.execute(handle, command, self._environ)
            if handle is not None
            else commands.execute_on_own_nodes(command, self._merged_options(Job()), self.python, self._environ)
        )
        return stream

    def shell(self, handle: Handle, command: NodeCommand) -> int:
        code: int = load_node_commands("slurm").open_shell(handle, command, self._environ)
        return code

    def explain(self, handle: Handle, script: str, seconds: float, secrets: Collection[str]) -> WaitExplanation | None:
        reports = find_module(_REPORTS)
        if reports is None:
            return None
        environ = without_variables(self._environ, secrets)
        found: WaitExplanation | None = reports.explain(handle["job"], script, seconds, environ)
        return found

    def usage(self, handles: Sequence[Handle], patience: float) -> list[Usage | None]:
        reports = find_module(_REPORTS)
        if reports is None:
            return [None] * len(handles)
        used: list[Usage | None] = reports.usages([handle["job"] for handle in handles], patience, self._environ)
        return used

    def _scancel(self, *words: str) -> None:
        try:
            self._run(["scancel", *words])
        except SubmitRejected:
            pass  # the job has already ended, so nothing is left to cancel

    def _options(self, job: Job, plan: Plan) -> list[options.Option]:
        if plan.batch is None:
            return options.sbatch_options(self._merged_options(job), plan)
        return options.script_options(self._settings.options, self._settings.gpus_per_node, job, plan)

    def _merged_options(self, job: Job) -> dict[str, Any]:
        return options.merge_options(self._settings.options, job, self._settings.gpus_per_node)

    @property
    def python(self) -> str:
        """The interpreter that runs the agents on the nodes."""
        return self._settings.python or sys.executable


def _dependency_option(submission: Submission) -> list[str]:
    """Return sbatch's `--dependency` option as a list of one argument. It combines the runs in `submission.after` that
    have not ended with the dependency that the job itself sets (`slurm.dependency`). Empty if the submission waits for
    no other run."""
    waits = [
        "{}:{}".format("afterany" if after.any_end else "afterok", ":".join(handle["job"] for handle in after.handles))
        for after in submission.after
        if after.handles
    ]
    if not waits:
        return []
    own = [submission.payload.dependency] if submission.payload.dependency else []
    return ["--dependency=" + ",".join([*own, *waits])]


def open_compute(settings: ComputeSettings, home: str, environ: Mapping[str, str]) -> Compute:
    """Return the compute for the Slurm cluster of this login node or, if this shell belongs to a running Slurm
    allocation, the compute that starts runs as steps of that allocation."""
    inside = is_inside_allocation(environ, partial(run_slurm, environ=environ))
    return _open(settings, home, environ, inside)


def compute_of_run(directory: str, handle: Handle | None, name: str, environ: Mapping[str, str]) -> Compute:
    inside = handle is not None and handle["type"] != "slurm"
    return _open(ComputeSettings(name, "slurm"), "", environ, inside)


def _open(settings: ComputeSettings, home: str, environ: Mapping[str, str], inside: bool) -> Compute:
    """Return a SlurmCompute, which submits jobs to the cluster, or, if `inside`, an AllocationCompute, which starts
    steps in an allocation. Raise ConfigError if this installation has no module for allocations."""
    if not inside:
        return SlurmCompute(settings, home, environ)
    module = load_module("wings.slurm_allocation.compute", "running inside an allocation of Slurm's")
    found: Compute = module.AllocationCompute(settings, home, environ)
    return found
