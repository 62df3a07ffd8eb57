"""Jobs, and what is planned of them, for tests of checks."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from worldsize.compute.base import ComputeFacts
from worldsize.jobspec.config.config import ComputeSettings, Config
from worldsize.jobspec.job import Job
from worldsize.plan.plan import Plan
from worldsize.plan.run_paths import RunPaths
from worldsize.service.request import SubmissionRequest
from worldsize.service.submission.make_plan import make_plan


def cluster(tmp_path: Path, **said: Any) -> ComputeSettings:
    return ComputeSettings("lab", "slurm", str(tmp_path / "runs"), **said)


def request_for(job: Job, settings: ComputeSettings, tmp_path: Path, **said: Any) -> SubmissionRequest:
    config = Config(str(tmp_path), settings.name, {settings.name: settings})
    return SubmissionRequest(job, config, None, {}, str(tmp_path), **said)


def plan_for(job: Job, facts: ComputeFacts | None = None) -> Plan:
    return make_plan(job, facts or ComputeFacts(), "lab", RunPaths("/home/ada/runs/-"), 1.0, ())
