"""Computes of type "toy": runs are jobs of the toy scheduler, which is used only through tsub, tstat and tdel."""

from __future__ import annotations

import json
import math
import shlex
import subprocess
import sys
import time
from collections.abc import Mapping, Sequence
from functools import partial
from typing import Any

from worldsize.compute.base import CheckResult, ComputeFacts, EmbeddedFiles, Handle, IdleCallback, Submission
from worldsize.compute.capabilities import ComputeNode
from worldsize.compute.exactly_once import submit_once
from worldsize.errors import SubmitAgain, SubmitRejected, WorldsizeError
from worldsize.jobspec.config.config import ComputeSettings
from worldsize.jobspec.job import Job
from worldsize.jobspec.keys.slurm import SETUP
from worldsize.plan.plan import Plan
from worldsize.plan.run_paths import RunPaths
from worldsize.plan.time_limit import scheduler_seconds
from worldsize.state.records import Observation, Reason
from worldsize.trust.procfs import withheld_variables, without_variables

KEYS = SETUP  # of its table in worldsize.toml, in addition to those of every compute
NO_ANSWER, OVER = (111, 124), (0, 35, 153)  # exit codes: 124 of `timeout`; the job has ended; it is not known
PATIENCE, MOMENT, PAUSE = 60.0, 3.0, 0.5  # seconds: a request is repeated until it has an answer, and the pause
PHASES = {"Q": "queued", "R": "running", "E": "ended"}
REASONS = {"time": Reason.TIME_LIMIT, "deleted": Reason.CANCELLED_BY_USER, "dependency": Reason.DEPENDENCY}
SCRIPT = """#!/bin/bash
#TSUB --name {name}
#TSUB --nodes {nodes} --time {time}
umask {umask:03o}
exec >>{root}/batch.log 2>&1
# If a lost answer has led to a second job of this run, only the first one starts it.
ln -s "$TOY_JOBID" {root}/job 2>/dev/null || [ "$(readlink {root}/job)" = "$TOY_JOBID" ] || exit 1
# `exec`: a shell would end at TERM, and the job with it, while the agents still use their grace.
exec tdsh {python} -I -S {root}/agent.pyz {root} --node-rank-var TOY_NODE --address 127.0.0.1 --prepare
"""


def open_compute(settings: ComputeSettings, home: str, environ: Mapping[str, str]) -> ToyCompute:
    return ToyCompute(settings, environ)


def compute_of_run(directory: str, handle: Handle | None, name: str, environ: Mapping[str, str]) -> ToyCompute:
    return ToyCompute(ComputeSettings(name, "toy"), environ)


class ToyCompute:
    capabilities = frozenset(("after", "array", "nodes", "queue"))
    group_noun = "queues"

    def __init__(self, settings: ComputeSettings, environ: Mapping[str, str]) -> None:
        self.name, self._settings, self._environ = settings.name, settings, environ

    def facts(self, job: Job) -> ComputeFacts:
        modules, setup = (self._settings.options.get(key, ()) for key in ("modules", "setup"))
        return ComputeFacts(self._settings.gpus_per_node, modules=modules, setup=setup)

    def check(self, job: Job, plan: Plan) -> list[CheckResult]:
        if plan.batch is not None:
            what = "a batch script's srun starts its ranks, and the toy scheduler has none"
            return [CheckResult("error", what, "batch_script", "set the command of each rank: `command` instead")]
        try:
            has = len(self.nodes())
        except WorldsizeError as error:
            return [CheckResult("error", error.what, error.where, error.hint, local=True)]
        what = f"{len(plan.nodes)} nodes are asked for, and compute {self.name} has {has}"
        return [CheckResult("error", what, "resources.instance_count", "ask for fewer")][: len(plan.nodes) > has]

    def render(self, job: Job, plan: Plan, paths: RunPaths, files: EmbeddedFiles) -> Submission:
        python, seconds = plan.interpreter or self._settings.python or sys.executable, scheduler_seconds(plan)
        said = {"name": plan.run_id, "nodes": len(plan.agents), "time": math.ceil(seconds or 0), "umask": plan.umask}
        return Submission(plan, paths, SCRIPT.format(python=shlex.quote(python), root=shlex.quote(paths.root), **said))

    def submit(self, submissions: Sequence[Submission]) -> list[Handle]:
        handles: list[Handle] = []
        try:
            for each in submissions:
                job = self._submit(submissions[0], each, [handle["job"] for handle in handles])
                handles.append({"type": "toy", "job": job, "run_id": each.plan.run_id})
        except BaseException:  # all elements of an array, or none
            self.cancel(handles, now=True)
            raise
        return handles

    def _submit(self, first: Submission, submission: Submission, earlier: Sequence[str]) -> str:
        plan = submission.plan
        after = [("--after-any" if each.any_end else "--after", each.handles) for each in submission.after]
        words = ["tsub", *(f"{option}={handle['job']}" for option, handles in after for handle in handles)]
        if plan.array and plan.array.at_once:  # tsub has no arrays: an element waits for the end of earlier ones
            words += [f"--after-any={job}" for job in earlier[: max(0, len(earlier) - plan.array.at_once + 1)]]
        script = first.preview.replace(first.plan.run_id, plan.run_id)  # of an array, the first element is rendered
        create = partial(self._ask, words, 0.0, script, plan.secrets)
        return submit_once(create, lambda: list(self._jobs(["--name", plan.run_id])))

    def observe(self, handles: Sequence[Handle], idle: IdleCallback | None = None) -> list[Observation]:
        try:
            jobs = self._jobs([str(handle["job"]) for handle in handles]) if handles else {}
        except WorldsizeError as error:
            return [Observation("unknown", message=f"the scheduler does not answer: {error.what}")] * len(handles)
        return [_observation(jobs.get(str(handle["job"])), handle) for handle in handles]

    def pause(self, age: float, runs: int = 1, queued: bool = False) -> float:
        return min(max(0.5, age / 20), 30.0 if queued else 15.0)

    def cancel(self, handles: Sequence[Handle], now: bool = False) -> None:
        self._signal(handles, "QUIT" if now else "TERM")

    def _signal(self, handles: Sequence[Handle], name: str) -> int:
        jobs = self._jobs([str(handle["job"]) for handle in handles], PATIENCE) if handles else {}
        runs = {handle.get("run_id") for handle in handles}  # other jobs are not touched, whatever a handle says
        ours = [job for job, said in jobs.items() if said["name"] in runs and said["state"] != "E"]
        for job in reversed(ours):  # the last first, so that none that waits for another begins meanwhile
            self._ask(["tdel", "--signal", name, job], PATIENCE)
        return len(ours)

    def end_remains(self, handle: Handle) -> int:
        return self._signal([handle], "KILL")

    def nodes(self) -> list[ComputeNode]:
        nodes = json.loads(self._ask(["tstat", "--nodes"], PATIENCE))["nodes"]
        return [ComputeNode(name, groups=("toy",), **node) for name, node in nodes.items()]  # state, cpus, memory

    def _jobs(self, words: Sequence[str], patience: float = MOMENT) -> dict[str, dict[str, Any]]:
        return dict(json.loads(self._ask(["tstat", *words], patience))["jobs"])

    def _ask(self, words: Sequence[str], patience: float, script: str = "", secrets: Sequence[str] = ()) -> str:
        environ = without_variables(self._environ, withheld_variables(secrets, self._environ))
        deadline = time.monotonic() + patience
        while True:
            done = subprocess.run(["timeout", "30", *words], input=script, env=environ, capture_output=True, text=True)
            if done.returncode in OVER:
                return done.stdout.strip()
            if done.returncode not in NO_ANSWER:
                raise SubmitRejected(done.stderr.strip(), words[0])
            if time.monotonic() > deadline:
                raise SubmitAgain(done.stderr.strip() or "it gave no answer within 30 s", words[0], "try again")
            time.sleep(PAUSE)


def _observation(job: Mapping[str, Any] | None, handle: Handle) -> Observation:
    if job is None or job["name"] != handle.get("run_id"):  # it is forgotten, or its number is now another job's
        return Observation("absent", message=f"the scheduler no longer knows job {handle['job']}", over=True)
    phase, message = PHASES.get(job["state"], "unknown"), job["why"] or job["comment"]
    return Observation(phase, REASONS.get(job["why"]), job["code"], message, phase == "ended", started=job["started"])
