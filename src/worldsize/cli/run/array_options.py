"""Several runs in one submission, on the command line: the options, the dry run, and the rerun of an element."""

from __future__ import annotations

import argparse
import os
from collections.abc import Collection, Sequence

from worldsize.cli.output import report
from worldsize.cli.runs.array import values_text
from worldsize.errors import JobError
from worldsize.jobspec.job import Job, is_array_job
from worldsize.jobspec.reading.matrix import with_count, with_matrix
from worldsize.plan.array import element_id, slurm_array_variables
from worldsize.plan.rank_environment import array_variables
from worldsize.plan.run_paths import RunPaths
from worldsize.service.request import PlannedJob
from worldsize.trust.secrets import mask_tree, mask_values

_SHOWN = 10


def with_array_options(job: Job, options: argparse.Namespace) -> Job:
    """Return `job` changed by the command-line options `--matrix`, `--count` and `--at-once`, which make it an array of
    runs. For a command after --, `--matrix` also declares its inputs. Raise JobError if an option does not fit the job.
    """
    if options.matrix:
        job = with_matrix(job, options.matrix, declare=options.words is not None)
    if options.count is not None:
        job = with_count(job, options.count)
    if options.at_once is not None:
        if not is_array_job(job) or options.at_once < 1:
            what = "has no meaning for a single run" if options.at_once else "at least one run at a time"
            raise JobError(what, "--at-once", "use --matrix or --count as well")
        job = job._replace(at_once=options.at_once)
    _check_sets(job, options.sets)
    return job


def to_single_job(job: Job, paths: RunPaths) -> Job:
    """Return the job for rerunning one element of an array, the run in `paths`, alone, with the element's number, or
    its script's index, in its environment variables. If the element was never started and has no code of its own, the
    job uses the array's code. Raise JobError for a trial that was never started, because its configuration is created
    when it starts."""
    from worldsize.service.runs.run import Run

    plan = Run(paths, os.environ).plan
    code = paths.code
    if not os.path.isdir(code):
        if "search" in plan.options:
            what = "it was never started, and so its configuration was not made"
            raise JobError(what, paths.run_id, "run the search again, or a trial of it that was started")
        code = RunPaths(os.path.dirname(paths.root)).code
    variables = {**array_variables(plan), **slurm_array_variables(plan), **job.environment_variables}
    has_code = job.code or job.additional_includes
    return job._replace(code=code if has_code else None, additional_includes=(), environment_variables=variables)


def _check_sets(job: Job, sets: Sequence[str]) -> None:
    """Check the values `sets` of the command-line option `--set`. Raise JobError if one sets an input that the job's
    matrix varies, because the value would have no effect."""
    for setting in sets:
        section, _, name = setting.partition("=")[0].strip().partition(".")
        if section == "inputs" and name in job.matrix:
            raise JobError("the matrix already varies it", f"--set inputs.{name}", f"use --matrix {name}=…")


def report_elements(planned: PlannedJob, secrets: Collection[str]) -> None:
    """Report the number of runs of a planned array on stderr, and the varying inputs of the first of them, with
    `secrets` masked."""
    elements = planned.elements
    report(f"{len(elements)} runs; this is the first")
    if not elements[0]:
        return
    for number, values in enumerate(elements[:_SHOWN]):
        shown = values_text(mask_tree(mask_values(values, secrets), sparing=True))
        report(f"{element_id('RUN', number)}: {shown}")
    if len(elements) > _SHOWN:
        report(f"… and {len(elements) - _SHOWN} more")
