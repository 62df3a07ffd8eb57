"""From a prepared job to a run: snapshot, write the run directory, submit. In that order, and nothing half."""

from __future__ import annotations

import os
import time
from collections.abc import Callable

from worldsize.common.atomic_files import storage_error, write_json, write_once, write_text
from worldsize.compute.base import Submission
from worldsize.errors import SubmitAgain, SubmitRejected
from worldsize.plan.plan import Plan
from worldsize.plan.run_paths import RunPaths
from worldsize.plan.secrets_file import plan_secret_values, write_result, write_secrets
from worldsize.service.request import PlannedJob, Progress, SubmissionRequest
from worldsize.service.submission.creation import create_and_submit
from worldsize.service.submission.plan_job import check_dependencies, format_notice, may_need_fetching, plan_job
from worldsize.service.submission.run_directory import (
    embedded_files,
    write_dependencies,
    write_record,
    write_run_directory,
)
from worldsize.state.records import Failure, Reason, RunState, Status
from worldsize.state.result import result
from worldsize.state.run_state import RUN_CANCELLED_CODE
from worldsize.store.runs import discard_run
from worldsize.trust.secrets import mask_values

TYPE_CHECKING = False
if TYPE_CHECKING:
    from worldsize.service.environments.lookup import Environment


def start(
    request: SubmissionRequest, progress: Progress, submitting: Callable[[RunPaths], None] = lambda _: None
) -> RunPaths:
    """Create, snapshot, write and submit one run; when this returns the compute has it.

    Anything that fails or interrupts before the compute has it leaves no run behind; a refusal by the compute leaves
    the run, FAILED. `submitting` is called when the run is complete, right before the compute gets it: from then on
    what asks for its end is `Run.cancel`, and not an exception. A job of several runs becomes an array, whose
    directory is returned.
    """
    if request.job.matrix or request.job.count is not None:
        from worldsize.service.submission.rehearsal import refuse_array_rehearsal
        from worldsize.service.submission.submit_array import start_array

        refuse_array_rehearsal(request.job)
        return start_array(request, progress, _build, submitting)
    created = time.time()
    dry = plan_job(request, RunPaths(os.path.join(request.config.home, "runs", "-")), created)
    for notice in dry.notices:
        progress.notice(format_notice(notice))
    if request.after:
        check_dependencies(request, dry)
    if dry.environment is not None:
        _build(dry.environment, progress)
    request = _fetch_if_needed(request, dry, progress)
    home = request.config.home

    def fill(paths: RunPaths) -> tuple[PlannedJob, Submission]:
        prepared = plan_job(request, paths, created, checked=True)
        submission = _fill(request, prepared, paths, progress)
        submitting(paths)
        return prepared, submission

    def submit(filled: tuple[PlannedJob, Submission], paths: RunPaths) -> None:
        _submit(*filled, home, paths)

    return create_and_submit(home, request.config.computes[dry.plan.compute].own_runs_dir, fill, submit)


def _fetch_if_needed(request: SubmissionRequest, dry: PlannedJob, progress: Progress) -> SubmissionRequest:
    if not may_need_fetching(request.job):
        return request
    from worldsize.service.provisioning.prefetch import fetch_all

    return fetch_all(request, dry, progress)


def _build(environment: Environment, progress: Progress) -> None:
    from worldsize.service.environments.build import ensure_ready

    ensure_ready(environment, progress, start)


def _submit(prepared: PlannedJob, submission: Submission, home: str, paths: RunPaths) -> None:
    """Whoever cancels meanwhile writes cancel.json, then looks for the handle; we do it the other way round."""
    compute, plan = prepared.compute, prepared.plan
    if os.path.exists(paths.cancel):
        what = "cancelled before it was submitted"
        _conclude(paths, plan, Status(RunState.CANCELLED, Reason.CANCELLED_BY_USER, RUN_CANCELLED_CODE, what))
        return
    try:
        handle = compute.submit([submission])[0]
    except SubmitRejected as error:
        failure = Failure(Reason.SUBMIT_REJECTED, error.what, code=error.exit_code, time=time.time())
        _conclude(paths, plan, Status(RunState.FAILED, failure.reason, error.exit_code, error.what, failure))
        raise
    except SubmitAgain:
        discard_run(home, paths)
        raise
    try:
        if submission.after:
            write_once(paths.handle, dict(handle))  # it may have begun by now, under a native id that it has written
        else:
            write_json(paths.handle, dict(handle))
    except OSError as error:
        compute.cancel(handle, now=True)
        raise storage_error(error, paths.handle) from None
    if os.path.exists(paths.cancel):
        compute.cancel(handle)


def _conclude(paths: RunPaths, plan: Plan, status: Status) -> None:
    write_result(paths, result(plan, status))


def _fill(request: SubmissionRequest, prepared: PlannedJob, paths: RunPaths, progress: Progress) -> Submission:
    """The whole run directory, record last: a run with a record is complete."""
    from worldsize.service.secrets import masked_job_text, split_secrets

    job, plan = prepared.job, prepared.plan
    shown, secrets = split_secrets(plan)
    digest = write_run_directory(request, job, paths, progress)
    submission = prepared.compute.render(job, plan, paths, lambda: embedded_files(job, plan, request.config.home))
    write_text(paths.job, masked_job_text(job, plan))
    write_text(paths.plan, shown.to_json())
    if secrets:
        write_secrets(paths, secrets)
    private = plan.batch is not None  # a batch script travels in it as it is
    write_text(paths.submission, mask_values(submission.preview, plan_secret_values(plan)), private)
    if request.after:
        submission = submission._replace(after=request.after)
        write_dependencies(request, paths, prepared.compute.facts(job).mapped)
    if prepared.environment is not None:
        from worldsize.service.environments.build import record_environment

        record_environment(prepared.environment, paths, plan_secret_values(plan))
    write_record(request, job, paths, digest, plan)
    return submission
