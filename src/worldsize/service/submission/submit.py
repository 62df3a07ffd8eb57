"""Submission of a job as a run or an array of runs: plan, write the directory, submit, in that order. An interrupted
submission leaves nothing half-written."""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Callable, Sequence

from worldsize.common.atomic_files import storage_error, write_json, write_once, write_text
from worldsize.common.debug_notes import note_decision
from worldsize.compute.base import Compute, Handle, Submission
from worldsize.errors import JobError, SubmitAgain, SubmitRejected
from worldsize.jobspec.job import Job, is_array_job
from worldsize.plan.run_paths import RunPaths
from worldsize.plan.secrets_file import plan_secret_values, write_secrets
from worldsize.service.request import PlannedJob, Progress, SubmissionRequest
from worldsize.service.runs.preparation_mark import mark_preparing, unmark_preparing
from worldsize.service.secrets import masked_job_text, split_secrets
from worldsize.service.submission.plan_job import (
    has_data_inputs,
    plan_at,
    plan_job,
    secrets_of_elements,
)
from worldsize.service.submission.rank_packages import write_mlflow_plugin
from worldsize.service.submission.run_directory import (
    embedded_files,
    write_dependencies,
    write_launchers,
    write_record,
    write_run_directory,
)
from worldsize.state.notices import PREFLIGHT
from worldsize.state.records import Failure, Reason, RunState, Status
from worldsize.store.runs import create_run, discard_run
from worldsize.store.started_from import note_start
from worldsize.trust.secrets import mask_values

TERMINAL_SIGNALS = (signal.SIGINT, signal.SIGQUIT, signal.SIGHUP)
"""The signals that a terminal sends to all of its processes."""


def start(
    request: SubmissionRequest, progress: Progress, submitting: Callable[[RunPaths], None] = lambda _: None
) -> RunPaths:
    """Create the run or the array of runs of a job, snapshot its code, write its files and submit it. Return the paths
    of its directory once the compute has accepted it.

    An error or interruption before the submission leaves nothing behind. If the compute rejects the run, its directory
    remains, with the state FAILED. `submitting` is called with the paths when all files are complete, right before the
    submission. From then on, the way to end it is `cancel` of the run or the array, and not an exception.
    """
    before, progress.notices = progress.notices, ()  # a run that builds an environment has its own record
    try:
        return _start(request, progress, submitting)
    finally:
        progress.notices = (*before, *progress.notices)


def _start(request: SubmissionRequest, progress: Progress, submitting: Callable[[RunPaths], None]) -> RunPaths:
    refuse_array_rehearsal(request.job)
    created = time.time()
    planned = plan_job(request, created)
    if planned.notices:
        from worldsize.service.submission.findings import format_notice
    for found in planned.notices:
        progress.notice(format_notice(found), found.id or PREFLIGHT, found.where)
    for text in _shared_outputs(planned):
        progress.notice(text, "output-shared")
    if request.after:
        from worldsize.service.submission.dependencies import check_dependencies

        check_dependencies(request, planned)
    if has_data_inputs(request.job) or request.job.stage or request.job.environment is not None:
        from worldsize.service.submission.prefetch import provide

        request, planned = provide(request, planned, created, progress, start)
    return _create_and_submit(request, planned, progress, submitting)


def _create_and_submit(
    request: SubmissionRequest, planned: PlannedJob, progress: Progress, submitting: Callable[[RunPaths], None]
) -> RunPaths:
    home, runs_dir = request.config.home, request.config.computes[planned.plan.compute].own_runs_dir
    former_mask = signal.pthread_sigmask(signal.SIG_BLOCK, TERMINAL_SIGNALS)
    try:
        paths = create_run(home, runs_dir, array=planned.is_array)
        note_decision(f"run directory: {paths.root}")
        mark_preparing(paths)
        note_start(home, request.cwd, paths.run_id)
        submissions = _fill_or_discard(request, planned, paths, progress, submitting, former_mask)
        try:
            _submit(planned.compute, submissions, home, paths)
        finally:
            unmark_preparing(paths)
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, former_mask)
    return paths


def _fill_or_discard(
    request: SubmissionRequest,
    planned: PlannedJob,
    paths: RunPaths,
    progress: Progress,
    submitting: Callable[[RunPaths], None],
    former_mask: set[int | signal.Signals],
) -> list[Submission]:
    """Write the run's directory, call `submitting`, and return the submissions for the compute. Discard the directory
    if that fails or is interrupted. An OSError is raised as StorageError.

    During the call, signals of a terminal are delivered as before, with the signal mask `former_mask`. Before the call
    they are blocked until the directory can be discarded; after it, until the run's processes are known and have left
    the terminal.
    """
    try:
        try:
            signal.pthread_sigmask(signal.SIG_SETMASK, former_mask)
            submissions = _fill(request, plan_at(planned, request, paths), paths, progress)
            submitting(paths)
            return submissions
        finally:
            signal.pthread_sigmask(signal.SIG_BLOCK, TERMINAL_SIGNALS)
    except OSError as error:
        discard_run(request.config.home, paths)
        raise storage_error(error, error.filename or paths.root) from None
    except BaseException:
        discard_run(request.config.home, paths)
        raise


def refuse_array_rehearsal(job: Job) -> None:
    """Raise JobError if the job is an array whose runs would be rehearsals."""
    if job.virtual_gpus is not None and is_array_job(job):
        what = "one run is rehearsed at a time"
        raise JobError(what, "virtual_gpus", "leave out matrix, count and autotune, and use --set inputs.NAME=VALUE")


def _shared_outputs(planned: PlannedJob) -> list[str]:
    """Return notices, as texts, about the outputs of an array to whose one local path every element writes; none for a
    single run."""
    return [
        f"outputs.{name}.path: every element writes to {output.path}"
        for name, output in planned.job.outputs.items()
        if planned.is_array and output.path and "://" not in output.path
    ]


def _fill(request: SubmissionRequest, planned: PlannedJob, paths: RunPaths, progress: Progress) -> list[Submission]:
    """Write all files of the directory of a planned run or array: first the files that its runs have in common, then
    the plan and the secrets of each run. Return one Submission per run."""
    job, plan, secrets = _whole_job(request, planned), planned.plan, secrets_of_elements(planned)
    digest = write_run_directory(request, job, plan, paths, progress)
    write_launchers(plan, paths)
    write_mlflow_plugin(plan, paths, os.path.join(request.config.home, "cache"))
    files = lambda: embedded_files(planned.job, plan, request.config.home)  # noqa: E731
    rendered = planned.compute.render(planned.job, plan, planned.paths, files)._replace(after=request.after)
    hidden = [*plan_secret_values(plan), *secrets]
    write_text(paths.job, masked_job_text(job, plan, secrets))
    private = plan.batch is not None  # it contains the batch script unmasked
    write_text(paths.submission, mask_values(rendered.preview, hidden), private)
    if request.after:
        write_dependencies(request, paths, planned.facts.mapped)
    if planned.environment is not None:
        from worldsize.service.environments.lookup import record_environment

        record_environment(planned.environment, paths, hidden)
    write_record(request, job, paths, digest, plan, secrets, progress.notices)
    if not planned.is_array:
        _write_plan(rendered)
        return [rendered]
    from worldsize.service.submission.element_directories import write_array, write_elements

    submissions = write_elements(rendered, planned, paths, secrets, progress)
    write_array(planned, paths, secrets)
    return submissions


def _whole_job(request: SubmissionRequest, planned: PlannedJob) -> Job:
    """Return the job that describes the whole submission: for an array, with its varying inputs and its size; for a
    single run, the planned job."""
    if not planned.is_array:
        return planned.job
    asked = request.job
    names = ("inputs", "matrix", "count", "at_once", "autotune", "resources")
    return planned.job._replace(**{name: getattr(asked, name) for name in names})


def _write_plan(submission: Submission) -> None:
    shown, secrets = split_secrets(submission.plan)
    write_text(submission.paths.plan, shown.to_json())
    if secrets:
        write_secrets(submission.paths, secrets)


def _submit(compute: Compute, submissions: Sequence[Submission], home: str, paths: RunPaths) -> None:
    """Submit the runs to the compute and write their handles. If cancel.json exists, record them as cancelled instead;
    if the compute rejects them, as failed. A process that cancels meanwhile writes cancel.json, then looks for the
    handles. A submission writes the handles, then looks for cancel.json."""
    if os.path.exists(paths.cancel):
        from worldsize.state.run_state import RUN_CANCELLED_CODE

        what = "cancelled before it was submitted"
        _conclude(paths, submissions, Status(RunState.CANCELLED, Reason.CANCELLED_BY_USER, RUN_CANCELLED_CODE, what))
        return
    try:
        handles = compute.submit(submissions)
    except SubmitRejected as error:
        failure = Failure(Reason.SUBMIT_REJECTED, error.what, code=error.exit_code, time=time.time())
        _conclude(paths, submissions, Status(RunState.FAILED, failure.reason, error.exit_code, error.what, failure))
        raise
    except SubmitAgain:
        discard_run(home, paths)
        raise
    note_decision(f"submitted: {handles[0]}")
    try:
        _write_handles(paths, handles, submissions)
    except OSError as error:
        compute.cancel(handles, now=True)
        raise storage_error(error, error.filename or paths.handle) from None
    if os.path.exists(paths.cancel):
        compute.cancel(handles)


def _write_handles(paths: RunPaths, handles: Sequence[Handle], submissions: Sequence[Submission]) -> None:
    if submissions[0].plan.array is not None:
        from worldsize.plan.array import handles_file

        write_json(handles_file(paths.root), [dict(handle) for handle in handles])
    elif submissions[0].after:
        write_once(paths.handle, dict(handles[0]))  # it may have begun and written its native id
    else:
        write_json(paths.handle, dict(handles[0]))


def _conclude(paths: RunPaths, submissions: Sequence[Submission], status: Status) -> None:
    from worldsize.plan.secrets_file import write_result
    from worldsize.state.result import result

    for each in submissions:
        write_result(each.paths, result(each.plan, status))
    if submissions[0].plan.array is not None:
        from worldsize.plan.array import read_array
        from worldsize.state.array import array_result

        array = read_array(paths.root)
        assert array is not None
        write_result(paths, array_result(array, [status] * len(submissions)))
