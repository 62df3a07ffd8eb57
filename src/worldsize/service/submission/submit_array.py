"""From a job of several runs to an array: one snapshot, a small directory for each element, one submission.

What an element's directory lacks, its agent links from the array's when it starts (agent/startup/array_element.py).
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Collection, Sequence

from worldsize.common.atomic_files import link_or_copy, storage_error, write_json, write_text
from worldsize.compute.base import CheckResult, Compute, ComputeFacts, Submission
from worldsize.errors import SubmitAgain, SubmitRejected
from worldsize.jobspec.job import Job
from worldsize.jobspec.reading.matrix import ElementValues, element_job, element_values
from worldsize.plan.array import Array, array_file, element_root, handles_file
from worldsize.plan.node_disk import with_local_variables
from worldsize.plan.plan import ArrayElement, Plan
from worldsize.plan.run_paths import RunPaths
from worldsize.plan.secrets_file import plan_secret_values, write_result, write_secrets
from worldsize.service.provisioning.inputs import with_input_paths
from worldsize.service.request import PlannedJob, Progress, SubmissionRequest
from worldsize.service.secrets import masked_job_text, split_secrets, varied_secrets
from worldsize.service.submission.creation import create_and_submit
from worldsize.service.submission.make_plan import for_inputs
from worldsize.service.submission.plan_job import check_dependencies, format_notice, may_need_fetching, plan_job
from worldsize.service.submission.run_directory import (
    embedded_files,
    write_dependencies,
    write_record,
    write_run_directory,
)
from worldsize.state.array import array_result
from worldsize.state.records import Failure, Reason, RunState, Status
from worldsize.state.result import result
from worldsize.state.run_state import RUN_CANCELLED_CODE
from worldsize.store.runs import discard_run
from worldsize.trust.secrets import mask_tree, mask_values

TYPE_CHECKING = False
if TYPE_CHECKING:
    from worldsize.common.path_mapping import Mapped
    from worldsize.service.environments.lookup import Environment


def start_array(
    request: SubmissionRequest,
    progress: Progress,
    build: Callable[[Environment, Progress], None],
    submitting: Callable[[RunPaths], None],
) -> RunPaths:
    """As `submit.start`, for all elements at once; the array's directory. `build` builds an environment."""
    created = time.time()
    home = request.config.home
    varied = element_values(request.job)
    dry = plan_array(request, varied, RunPaths(os.path.join(home, "runs", "-")), created)
    for notice in dry.notices:
        progress.notice(format_notice(notice))
    for text in _shared_outputs(dry.job):
        progress.notice(text)
    check_dependencies(request, dry)
    if dry.environment is not None:
        build(dry.environment, progress)
    if may_need_fetching(request.job):
        from worldsize.service.provisioning.prefetch import fetch_all

        request = fetch_all(request, dry, progress)

    def fill(paths: RunPaths) -> tuple[Compute, list[Submission]]:
        prepared = plan_array(request, varied, paths, created, checked=True)
        submissions = _fill(request, prepared, varied, paths, progress)
        submitting(paths)
        return prepared.compute, submissions

    def submit(filled: tuple[Compute, list[Submission]], paths: RunPaths) -> None:
        _submit(*filled, home, paths)

    return create_and_submit(home, request.config.computes[dry.plan.compute].own_runs_dir, fill, submit, array=True)


def plan_array(
    request: SubmissionRequest, varied: Sequence[ElementValues], paths: RunPaths, created: float, checked: bool = False
) -> PlannedJob:
    """The first element of the array in `paths`, which all others are like but for their inputs."""
    first = RunPaths(element_root(paths.root, 0))
    single = request._replace(job=element_job(request.job, varied[0]))
    prepared = plan_job(single, first, created, checked)
    facts = prepared.compute.facts(prepared.job)
    at_once = request.job.at_once or _element_limit(prepared.plan, facts)
    if "array" not in prepared.compute.capabilities:
        what = f"inside an allocation all {len(varied)} runs start at once"
        hint = "in a job of their own each can have nodes to itself: leave the allocation's shell"
        prepared = prepared._replace(notices=(*prepared.notices, CheckResult("notice", what, "at_once", hint)))
        at_once = None
    plan = prepared.plan._replace(array=ArrayElement(0, len(varied), paths.run_id, at_once))
    if varied[0] and not (facts.shared_host or facts.mapped or plan.step):  # within an image nodes look at nothing
        plan = plan._replace(named=_paths_named_by_all(plan, prepared, varied, first, facts.mapped))
    return prepared._replace(plan=_with_threads(plan, prepared.job, facts, min(at_once or 1, len(varied))))


def _paths_named_by_all(
    plan: Plan, prepared: PlannedJob, varied: Sequence[ElementValues], paths: RunPaths, mapped: Mapped
) -> tuple[str, ...]:
    """What the elements name, all of which have one script."""
    from worldsize.service.environments.loaded_paths import paths_named_in_plan, without_secrets

    named = dict.fromkeys(plan.named)
    for values in varied[1:]:
        single = prepared.job._replace(inputs={**prepared.job.inputs, **values})
        named.update(
            dict.fromkeys(
                paths_named_in_plan(for_inputs(plan, with_input_paths(single, prepared.paths), paths, mapped))
            )
        )
    return without_secrets(named, [*plan_secret_values(plan), *varied_secrets(varied)])


def _element_limit(plan: Plan, facts: ComputeFacts) -> int | None:
    """How many elements a machine has room for that has no scheduler: by its cores, and one that uses its GPUs."""
    if not facts.shared_host or facts.cores_per_node is None:
        return None
    return 1 if plan.gpus else max(1, facts.cores_per_node // plan.world_size)


def _with_threads(plan: Plan, job: Job, facts: ComputeFacts, at_once: int) -> Plan:
    """Elements that run beside each other share the machine's cores too."""
    if job.threads or plan.threads is None or not facts.shared_host:
        return plan
    return plan._replace(threads=max(1, plan.threads // at_once))


def _shared_outputs(job: Job) -> list[str]:
    return [
        f"outputs.{name}.path: every element writes to {output.path}"
        for name, output in job.outputs.items()
        if output.path and "://" not in output.path
    ]


def _fill(
    request: SubmissionRequest,
    prepared: PlannedJob,
    varied: Sequence[ElementValues],
    paths: RunPaths,
    progress: Progress,
) -> list[Submission]:
    """The array's directory with its elements, array.json last: an array that has it is complete."""
    job = prepared.job._replace(
        inputs=request.job.inputs, matrix=request.job.matrix, count=request.job.count, at_once=request.job.at_once
    )
    plan, secrets = prepared.plan, varied_secrets(varied)
    digest = write_run_directory(request, job, paths, progress)
    first = RunPaths(element_root(paths.root, 0))
    files = lambda: embedded_files(prepared.job, plan, request.config.home)  # noqa: E731
    rendered = prepared.compute.render(prepared.job, plan, first, files)
    write_text(paths.job, masked_job_text(job, plan, secrets))
    shown = mask_values(rendered.preview, [*plan_secret_values(plan), *secrets])
    write_text(paths.submission, shown, private=plan.batch is not None)
    if request.after:
        write_dependencies(request, paths, prepared.compute.facts(prepared.job).mapped)
    if prepared.environment is not None:
        from worldsize.service.environments.build import record_environment

        record_environment(prepared.environment, paths, [*plan_secret_values(prepared.plan), *secrets])
    write_record(request, job, paths, digest, plan, secrets)
    rendered = rendered._replace(after=request.after)
    mapped = prepared.compute.facts(prepared.job).mapped
    submissions = _write_elements(rendered, prepared, varied, paths, mapped, secrets, progress)
    at_once = plan.array.at_once if plan.array else None
    values: tuple[ElementValues, ...] = ()
    if job.matrix:
        values = tuple(
            mask_tree(mask_values(each, [*plan_secret_values(plan), *secrets]), sparing=True) for each in varied
        )
    size = (len(plan.nodes), plan.world_size, len(varied))
    array = Array(paths.run_id, plan.name, plan.compute, plan.created, *size, at_once, values)
    write_text(array_file(paths.root), array.to_json())
    return submissions


def _write_elements(
    rendered: Submission,
    prepared: PlannedJob,
    varied: Sequence[ElementValues],
    paths: RunPaths,
    mapped: Mapped,
    secrets: Collection[str],
    progress: Progress,
) -> list[Submission]:
    job = prepared.job
    has_manifest = os.path.exists(paths.manifest)
    submissions: list[Submission] = []
    for number, values in enumerate(varied):
        progress.step("elements", number, len(varied))
        single = job._replace(inputs={**job.inputs, **values}) if values else job
        element = RunPaths(element_root(paths.root, number))
        plan = with_local_variables(
            for_inputs(rendered.plan, with_input_paths(single, prepared.paths), element, mapped)
        )
        plan = plan._replace(argv=(*prepared.wrap, *plan.argv))
        assert plan.array is not None
        plan = plan._replace(array=plan.array._replace(element=number))
        mode = 0o777 & ~plan.umask
        os.mkdir(element.root, mode)
        if values or not number:
            _write(element.job, masked_job_text(single, plan, secrets), mode)
        else:
            link_or_copy(submissions[0].paths.job, element.job)
        shown, hidden = split_secrets(plan, secrets)
        _write(element.plan, shown.to_json(), mode)
        if hidden:
            write_secrets(element, hidden)
        link_or_copy(paths.agent, element.agent)
        if has_manifest:
            link_or_copy(paths.manifest, element.manifest)
        link_or_copy(paths.record, element.record)
        if prepared.environment is not None:
            link_or_copy(paths.environment, element.environment)
        submissions.append(rendered._replace(plan=plan, paths=element))
    return submissions


def _write(path: str, text: str, mode: int) -> None:
    """In a directory that nobody knows of yet, where nobody could see half of it."""
    file = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, mode & 0o666)
    try:
        view = memoryview(text.encode("utf-8", "surrogateescape"))
        while view:
            view = view[os.write(file, view) :]
    finally:
        os.close(file)


def _submit(compute: Compute, submissions: Sequence[Submission], home: str, paths: RunPaths) -> None:
    """Whoever cancels meanwhile writes cancel.json, then looks for the handles; we do it the other way round."""
    if os.path.exists(paths.cancel):
        what = "cancelled before it was submitted"
        _conclude(paths, submissions, Status(RunState.CANCELLED, Reason.CANCELLED_BY_USER, RUN_CANCELLED_CODE, what))
        return
    try:
        handles = compute.submit(submissions)
    except SubmitRejected as error:
        failure = Failure(Reason.SUBMIT_REJECTED, error.what, code=error.exit_code, time=time.time())
        status = Status(RunState.FAILED, failure.reason, error.exit_code, error.what, failure)
        _conclude(paths, submissions, status)
        raise
    except SubmitAgain:
        discard_run(home, paths)
        raise
    try:
        write_json(handles_file(paths.root), [dict(handle) for handle in handles])
    except OSError as error:
        compute.cancel_all(handles, now=True)
        raise storage_error(error, handles_file(paths.root)) from None
    if os.path.exists(paths.cancel):
        compute.cancel_all(handles)


def _conclude(paths: RunPaths, submissions: Sequence[Submission], status: Status) -> None:
    for each in submissions:
        write_result(each.paths, result(each.plan, status))
    with open(array_file(paths.root), encoding="utf-8") as file:
        array = Array.from_json(file.read())
    write_result(paths, array_result(array, [status] * len(submissions)))
