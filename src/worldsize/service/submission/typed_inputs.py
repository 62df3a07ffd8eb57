"""Checks of the values of typed inputs that a job, or the component that it was made from, declares."""

from __future__ import annotations

from worldsize.compute.base import CheckResult
from worldsize.jobspec.input_types import input_problems
from worldsize.jobspec.job import Job
from worldsize.service.request import KeyOrigins


def input_findings(job: Job, origins: KeyOrigins) -> list[CheckResult]:
    """Return an error, as a CheckResult, for each typed input of the job that has no value, or a value that is not
    allowed."""
    return [CheckResult("error", what, origins.of(key), hint) for key, what, hint in input_problems(job)]
