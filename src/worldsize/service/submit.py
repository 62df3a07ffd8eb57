"""From a prepared job to a run: snapshot, write the run directory, submit. In that order, and nothing half."""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Callable

from worldsize.compute.base import Submission
from worldsize.errors import JobError, SubmitAgain, SubmitRejected
from worldsize.plan.files import storage_error, write_json, write_once, write_text
from worldsize.plan.launch import Plan
from worldsize.plan.paths import RunPaths
from worldsize.service.planning import output_path
from worldsize.service.preflight import script_of
from worldsize.service.prepare import Prepared, Progress, Request, plan_job, said
from worldsize.service.preparing import mark_preparing, unmark_preparing
from worldsize.spec.job import Job
from worldsize.state.records import Failure, Reason, RunState, Status
from worldsize.state.result import result
from worldsize.state.status import CANCELLED_CODE
from worldsize.version import VERSION

_TERMINAL = (signal.SIGINT, signal.SIGQUIT, signal.SIGHUP)
"""What a terminal sends to all who belong to it: they wait until a run's processes are known, and have left it."""


def start(request: Request, progress: Progress, submitting: Callable[[RunPaths], None] = lambda _: None) -> RunPaths:
    """Create, snapshot, write and submit one run; when this returns the compute has it.

    Anything that fails or interrupts before the compute has it leaves no run behind; a refusal by the compute leaves
    the run, FAILED. `submitting` is called when the run is complete, right before the compute gets it: from then on
    what asks for its end is `Run.cancel`, and not an exception.
    """
    from worldsize.store.runs import create_run, discard_run

    created = time.time()
    dry = plan_job(request, RunPaths(os.path.join(request.config.home, "runs", "-")), created)
    for notice in dry.notices:
        progress.notice(said(notice))
    home = request.config.home
    paths = create_run(home, request.config.computes[dry.plan.compute].runs_dir)
    mark_preparing(paths)
    try:
        prepared = plan_job(request, paths, created)
        submission = _fill(request, prepared, paths, progress)
        submitting(paths)
    except OSError as error:
        discard_run(home, paths)
        raise storage_error(error, error.filename or paths.root) from None
    except BaseException:
        discard_run(home, paths)
        raise
    before = signal.pthread_sigmask(signal.SIG_BLOCK, _TERMINAL)
    try:
        _submit(prepared, submission, home, paths)
    finally:
        unmark_preparing(paths)
        signal.pthread_sigmask(signal.SIG_SETMASK, before)
    return paths


def _submit(prepared: Prepared, submission: Submission, home: str, paths: RunPaths) -> None:
    """Whoever cancels meanwhile writes cancel.json, then looks for the handle; we do it the other way round."""
    compute, plan = prepared.compute, prepared.plan
    if os.path.exists(paths.cancel):
        what = "cancelled before it was submitted"
        _conclude(paths, plan, Status(RunState.CANCELLED, Reason.CANCELLED_BY_USER, CANCELLED_CODE, what))
        return
    try:
        handle = compute.submit([submission])[0]
    except SubmitRejected as error:
        failure = Failure(Reason.SUBMIT_REJECTED, error.what, code=error.exit_code, time=time.time())
        _conclude(paths, plan, Status(RunState.FAILED, failure.reason, error.exit_code, error.what, failure))
        raise
    except SubmitAgain:
        _discard(home, paths)
        raise
    try:
        write_json(paths.handle, dict(handle))
    except OSError as error:
        compute.cancel(handle, now=True)
        raise storage_error(error, paths.handle) from None
    if os.path.exists(paths.cancel):
        compute.cancel(handle)


def _conclude(paths: RunPaths, plan: Plan, status: Status) -> None:
    write_once(paths.result, result(plan, status))


def _discard(home: str, paths: RunPaths) -> None:
    from worldsize.store.runs import discard_run

    discard_run(home, paths)


def _fill(request: Request, prepared: Prepared, paths: RunPaths, progress: Progress) -> Submission:
    """The whole run directory, record last: a run with a record is complete."""
    from worldsize.environment.bundle import agent_bundle
    from worldsize.environment.git import start_git_diff
    from worldsize.environment.record import make_record
    from worldsize.spec.dump import dump_job, job_tree

    job, plan = prepared.job, prepared.plan
    if job.share == "group":
        _share(paths, progress)
    if job.code:
        start_git_diff(job.code, paths.diff, request.environ)
    digest = _snapshot(job, paths, request.config.home, progress)
    for name, output in job.outputs.items():
        _make_output(output_path(paths, name, output), output.type)
    _place_inrank(paths)
    _link(agent_bundle(os.path.join(request.config.home, "cache")), paths.agent)
    submission = prepared.compute.render(plan, paths)
    write_text(paths.job, dump_job(job))
    write_text(paths.plan, plan.to_json())
    write_text(paths.submission, submission.preview)
    record = make_record(
        VERSION, job_tree(job), request.argv, request.environ, request.cwd, job.code or "", digest, plan.created
    )
    write_json(paths.record, record)
    return submission


def _share(paths: RunPaths, progress: Progress) -> None:
    from worldsize.service.share import closed_parent, open_directories

    open_directories(paths)
    closed = closed_parent(paths)
    if closed:
        progress.notice("share: the group cannot enter %s (name a runs_dir that it can: worldsize.toml)" % closed)


def _snapshot(job: Job, paths: RunPaths, home: str, progress: Progress) -> str | None:
    """The digest of the code as it is now in the run, None for no code."""
    if job.code is None:
        return None
    from worldsize.environment.snapshot import take_snapshot
    from worldsize.store.runs import objects_dir

    def tick(done: int, total: int) -> None:
        progress.step("snapshot", done, total)

    runs_dir = os.path.dirname(paths.root)
    snapshot = take_snapshot(job.code, paths, objects_dir(runs_dir), excluded=[runs_dir, home], tick=tick)
    if job.share == "group":
        from worldsize.service.share import open_code

        open_code(paths)
    for warning in snapshot.warnings:
        progress.notice("snapshot: " + warning)
    script = script_of(job)
    if script and not os.path.isabs(script) and not os.path.exists(os.path.join(paths.code, script)):
        raise JobError(
            "%s exists, but the snapshot leaves it out" % script,
            os.path.join(job.code, ".amlignore or .gitignore"),
            "take it out of the ignore file",
        )
    return snapshot.digest


def _make_output(path: str, kind: str) -> None:
    os.makedirs(os.path.dirname(path) if kind == "uri_file" else path, mode=0o700, exist_ok=True)


def _place_inrank(paths: RunPaths) -> None:
    """The exception hook, read from this package and written where every rank's Python finds it."""
    source = os.path.join(os.path.dirname(os.path.dirname(__file__)), "inrank", "sitecustomize.py")
    with open(source) as file:
        write_text(os.path.join(paths.inrank, "sitecustomize.py"), file.read())


def _link(source: str, target: str) -> None:
    try:
        os.link(source, target)
    except OSError:
        import shutil

        shutil.copyfile(source, target)
