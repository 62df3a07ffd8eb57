"""Computes of type "toy": each node of a run is a process of this machine, under one that stands for the job."""

from __future__ import annotations

import os
import shlex
import sys
from collections.abc import Mapping, Sequence

from toy_compute.jobs import Jobs
from worldsize.compute.base import CheckResult, ComputeFacts, EmbeddedFiles, Handle, IdleCallback, Submission
from worldsize.jobspec.config.config import ComputeSettings
from worldsize.jobspec.job import Job
from worldsize.jobspec.keys.key import Key, Keys
from worldsize.jobspec.keys.slurm import SETUP
from worldsize.plan.plan import Plan
from worldsize.plan.run_paths import RunPaths
from worldsize.state.records import Observation
from worldsize.trust.procfs import withheld_variables, without_variables

KEYS: Keys = {"nodes": Key("int", "How many nodes it has.", minimum=1), **SETUP}
"""Of its table in worldsize.toml, besides those that every compute has."""


def open_compute(settings: ComputeSettings, home: str, environ: Mapping[str, str]) -> ToyCompute:
    return ToyCompute(settings, environ)


def compute_of_run(directory: str, handle: Handle | None, name: str, environ: Mapping[str, str]) -> ToyCompute:
    """A handle may be anybody's text: it says which job is meant, and nothing about where jobs are kept."""
    return ToyCompute(ComputeSettings(name, "toy"), environ)


class ToyCompute:
    """It owes the eight methods, and has no further capability."""

    capabilities: frozenset[str] = frozenset()

    def __init__(self, settings: ComputeSettings, environ: Mapping[str, str]) -> None:
        self.name = settings.name
        self._settings = settings
        self._environ = environ
        self._jobs = Jobs(environ)

    def facts(self, job: Job) -> ComputeFacts:
        said = self._settings.options
        return ComputeFacts(
            self._settings.gpus_per_node,
            len(os.sched_getaffinity(0)),
            shared_host=True,
            modules=said.get("modules", ()),
            setup=said.get("setup", ()),
        )

    def check(self, job: Job, plan: Plan) -> list[CheckResult]:
        if plan.batch is not None:
            what = "a batch script's srun starts its ranks, and a toy has none"
            return [CheckResult("error", what, "batch_script", "set the command of each rank: `command` in its place")]
        has = self._settings.options.get("nodes", len(plan.nodes))
        if len(plan.nodes) > has:
            what = "%d nodes are asked for, and compute %s has %d" % (len(plan.nodes), self.name, has)
            return [CheckResult("error", what, "resources.instance_count", "ask for fewer")]
        return []

    def render(self, job: Job, plan: Plan, paths: RunPaths, files: EmbeddedFiles) -> Submission:
        python = self._settings.python or sys.executable
        lines = [_agent_line(python, paths, node.node_rank) for node in plan.agents]
        return Submission(plan, paths, "".join(shlex.join(line) + "\n" for line in lines), payload=lines)

    def submit(self, submissions: Sequence[Submission]) -> list[Handle]:
        return [self._submit(each) for each in submissions]

    def _submit(self, submission: Submission) -> Handle:
        plan = submission.plan
        environ = without_variables(self._environ, withheld_variables(plan.secrets, self._environ))
        job = self._jobs.start(plan.run_id, submission.payload, environ)
        return {"type": "toy", "job": job, "run_id": plan.run_id}

    def observe(self, handles: Sequence[Handle], idle: IdleCallback | None = None) -> list[Observation]:
        return [self._observe(handle) for handle in handles]

    def _observe(self, handle: Handle) -> Observation:
        job = self._jobs.find(handle["job"], handle["run_id"])
        if job is None:
            return Observation("absent", message="there is no job %s" % handle["job"], over=True)
        if job.living:
            return Observation("running")
        if job.code is None:
            return Observation("absent", message="job %s was killed" % handle["job"], over=True)
        return Observation("ended", code=job.code, over=True)

    def pause(self, age: float, runs: int = 1, queued: bool = False) -> float:
        return 0.25

    def cancel(self, handles: Sequence[Handle], now: bool = False) -> None:
        for handle in handles:
            self._jobs.stop(handle["job"], handle["run_id"], now)

    def end_remains(self, handle: Handle) -> int:
        return self._jobs.kill(handle["job"], handle["run_id"])


def _agent_line(python: str, paths: RunPaths, node: int) -> list[str]:
    """What starts a node's agent: this machine is its address, and no batch script has executed the job's setup."""
    words = [python, paths.agent, paths.root, "--node-rank", str(node)]
    return [*words, "--address", "127.0.0.1", "--attempt-var", "TOY_ATTEMPT", "--prepare"]
