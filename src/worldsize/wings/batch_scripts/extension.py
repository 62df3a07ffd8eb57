"""Batch scripts as the core asks for them. What each question needs is imported with it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from worldsize.compute.base import CheckResult, ComputeFacts
from worldsize.jobspec.batch_script import ScriptReader
from worldsize.jobspec.job import Job, LoadedJob
from worldsize.jobspec.reading.problems import Problems
from worldsize.jobspec.reading.tree import YamlNode
from worldsize.plan.plan import Plan
from worldsize.plan.run_paths import RunPaths
from worldsize.service.submission.batch_script import ScriptSubmission


class _Reader(ScriptReader):
    def load_script(self, path: str, cwd: str, code: str | None = None) -> LoadedJob:
        from worldsize.wings.batch_scripts.script.job import load_script

        return load_script(path, cwd, code)

    def with_script_values(
        self, nodes: dict[str, YamlNode], values: dict[str, Any], report: Problems
    ) -> dict[str, Any]:
        from worldsize.wings.batch_scripts.script.reader import with_script_values

        return with_script_values(nodes, values, report)

    def sbatch_options(self, job: Job) -> list[tuple[str, str | None]]:
        from worldsize.wings.batch_scripts.script.job import effective_script
        from worldsize.wings.batch_scripts.script.slurm_keys import own_options

        return own_options(effective_script(job))

    def gpu_count(self, job: Job) -> int:
        from worldsize.wings.batch_scripts.script.job import allocation_request_of

        return allocation_request_of(job).gpus or 0


class _Submission(ScriptSubmission):
    def argv(self, job: Job, paths: RunPaths) -> tuple[str, ...]:
        from worldsize.wings.batch_scripts.submission import script_argv

        return script_argv(job, paths)

    def with_script(self, plan: Plan, job: Job, facts: ComputeFacts) -> Plan:
        from worldsize.wings.batch_scripts.submission import with_script

        return with_script(plan, job, facts)

    def check(self, job: Job, plan: Plan) -> list[CheckResult]:
        from worldsize.wings.batch_scripts.preflight import check_batch

        return check_batch(job, plan)

    def option_origin(self, job: Job, key: str) -> str | None:
        from worldsize.wings.batch_scripts.preflight import option_origin

        return option_origin(job, key)

    def files(self, job: Job, virtual: bool) -> Mapping[str, bytes]:
        from worldsize.wings.batch_scripts.submission import script_files

        return script_files(job, virtual)

    def write_files(self, job: Job, paths: RunPaths) -> None:
        from worldsize.wings.batch_scripts.submission import write_script

        write_script(job, paths)

    def link_left_out_paths(self, job: Job, paths: RunPaths) -> list[str]:
        from worldsize.wings.batch_scripts.submission import link_left_out_paths

        return link_left_out_paths(job, paths)


READER = _Reader()
SUBMISSION = _Submission()
