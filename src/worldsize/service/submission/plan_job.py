"""What would run: the job on its compute, planned and checked. Writes nothing."""

from __future__ import annotations

import os
from collections.abc import Sequence

from worldsize.common.atomic_files import own_umask
from worldsize.compute.base import CheckResult, ComputeFacts
from worldsize.errors import PlanError, UsageError
from worldsize.jobspec.job import Job
from worldsize.plan.plan import Plan
from worldsize.plan.run_paths import RunPaths
from worldsize.plan.secrets_file import plan_secret_values
from worldsize.service.computes import choose_compute, open_compute, python_path
from worldsize.service.request import PlannedJob, SubmissionRequest
from worldsize.service.secrets import build_environ, check_secrets, named_secrets, rank_only_variables
from worldsize.service.submission.make_plan import make_plan, with_client_paths
from worldsize.service.submission.preflight import offline_findings, preflight
from worldsize.trust.directories import require_shared_directory
from worldsize.trust.secrets import mask_values

TYPE_CHECKING = False
if TYPE_CHECKING:
    from worldsize.environment.activation import Activation
    from worldsize.plan.node_disk import NodeDiskPlan
    from worldsize.service.environments.lookup import Environment


def plan_job(request: SubmissionRequest, paths: RunPaths, created: float, checked: bool = False) -> PlannedJob:
    """What would run, and what is to be said about it; writes nothing. UsageError with every problem at once.

    `checked`: it was looked at before, for other paths.
    """
    try:
        return _plan_job(request, paths, created, checked)
    except (UsageError, PlanError) as error:
        if error.where:
            error.where = request.origins.of(error.where)
        raise


def _plan_job(request: SubmissionRequest, paths: RunPaths, created: float, checked: bool) -> PlannedJob:
    name = choose_compute(request.config, request.compute, request.job.compute)
    job = _with_grace(request.job, request.config.computes[name].grace)
    compute = open_compute(request.config, name, request.environ)
    if job.virtual_gpus is not None and "local" not in compute.capabilities:
        raise PlanError(
            f"virtual GPUs are for virtual nodes, and those of {name} are real",
            "virtual_gpus",
            f"worldsize rehearse runs the job on this machine; without virtual_gpus it runs on {name}",
        )
    if not checked:  # what is shown, to be submitted by hand, lies there as what is submitted does
        runs_dir = request.config.computes[name].own_runs_dir or os.path.join(request.config.home, "runs")
        try:
            require_shared_directory(os.path.abspath(runs_dir), make=False)
        except NotADirectoryError:
            pass  # the run that is made there says so, and where the path comes from
    offline = job.offline or request.config.computes[name].offline
    facts: ComputeFacts = compute.facts(job)
    if facts.mapped:
        job = with_client_paths(job, facts.mapped)
    data, planned, local = _with_data(request, job, name, facts) if has_data_inputs(job) else ({}, job, None)
    path = _python_path(request, name, facts)
    plan = make_plan(planned, facts, name, paths, created, path, own_umask())
    closed = rank_only_variables(job)
    if closed:
        secrets = named_secrets(job, request.environ)
        plan = plan._replace(environment={**plan.environment, **secrets}, secrets=closed)
    plan = plan._replace(name=mask_values(plan.name, plan_secret_values(plan)))
    environment, found = None, None
    findings = [] if checked else preflight(job, plan, compute, request.origins, facts.mapped)
    if job.secrets and not checked:
        findings += check_secrets(job, request.environ, request.origins)
    if offline and not checked:
        findings += offline_findings(job, request.origins)
    if job.environment is not None:
        environment, found, plan, said = _with_environment(request, job, facts, plan, path)
        plan = plan._replace(name=mask_values(plan.name, plan_secret_values(plan)))  # with its variables
        findings = [] if checked else sorted([*findings, *said], key=lambda finding: finding.level != "error")
    errors = [finding for finding in findings if finding.level == "error"]
    if errors:
        raise _problems_error(errors)
    if not (facts.shared_host or facts.mapped):  # nodes that are other machines, and call paths as this one does
        from worldsize.service.environments.loaded_paths import paths_for_nodes

        plan = plan._replace(named=paths_for_nodes(plan, path, environment, found))
    if local is not None:
        from worldsize.plan.node_disk import with_local_variables

        archive = plan.local.archive if plan.local else None
        plan = with_local_variables(plan._replace(local=local._replace(archive=archive)))
    if job.stage or offline:
        from worldsize.service.provisioning.offline import with_staging_variables

        settings = request.config.computes[name]._replace(offline=offline)
        plan = with_staging_variables(plan, request.staged, settings, facts.mapped)
    wrap: tuple[str, ...] = ()
    if environment is not None and environment.image:
        from worldsize.service.provisioning.image import wrap_in_container

        plan, wrap = wrap_in_container(plan, job, environment.image, request, facts, paths)
    return PlannedJob(job._replace(compute=name), plan, compute, tuple(findings), data, environment, wrap)


def may_need_fetching(job: Job) -> bool:
    """Whether something may have to be fetched before the run is created."""
    return bool(has_data_inputs(job) or job.stage or job.environment is not None)


def has_data_inputs(job: Job) -> bool:
    """Whether an input is more than a value."""
    return any(isinstance(value, tuple) for value in job.inputs.values())


def _with_environment(
    request: SubmissionRequest, job: Job, facts: ComputeFacts, plan: Plan, path: tuple[str, ...]
) -> tuple[Environment | None, Activation | None, Plan, list[CheckResult]]:
    from worldsize.service.environments.in_plan import find_job_environment, with_activation

    environ = build_environ(job, request.environ)
    environment, said = find_job_environment(job, request.config, plan.compute, environ, facts, request.origins)
    found = environment.activation(request.environ) if environment is not None else None
    if environment is not None and found is not None:
        plan = with_activation(plan, job, facts, found, path)
        plan, more = _with_distribution(request, job, facts, plan, environment)
        said += more
    if environment is not None and environment.image:
        from worldsize.service.provisioning.image import check_image

        said += check_image(plan, job, environment.image, request)
    return environment, found, plan, said


def _with_distribution(
    request: SubmissionRequest, job: Job, facts: ComputeFacts, plan: Plan, environment: Environment
) -> tuple[Plan, list[CheckResult]]:
    """Where nothing is said, and few nodes read it, it is read where it is."""
    if environment.archive is None and environment.recipe is None and environment.spec.distribute in ("auto", "shared"):
        return plan, []
    from worldsize.service.provisioning.pack import with_packed_environment

    settings = request.config.computes[plan.compute]
    plan, said = with_packed_environment(plan, job, environment, request.packed, settings, facts)
    return plan, [finding._replace(where=request.origins.of(finding.where or "")) for finding in said]


def _with_data(
    request: SubmissionRequest, job: Job, compute: str, facts: ComputeFacts
) -> tuple[dict[str, str], Job, NodeDiskPlan | None]:
    from worldsize.service.provisioning.inputs import locate_inputs, with_input_paths

    paths, local = locate_inputs(job, request.fetched, request.config.computes[compute], facts)
    return paths, with_input_paths(job, paths), local


def _with_grace(job: Job, configured: float | None) -> Job:
    said_nothing = job.grace == Job._field_defaults["grace"]
    return job._replace(grace=configured) if configured is not None and said_nothing else job


def _python_path(request: SubmissionRequest, compute: str, facts: ComputeFacts) -> tuple[str, ...]:
    """On nodes that share no more than a directory with this machine, only what is configured for them counts."""
    if not facts.mapped:
        return python_path(request.config, compute, request.environ, request.job.batch_script is not None)
    directory = os.path.dirname(facts.python)
    return (directory,) if directory else ()


def format_notice(notice: CheckResult) -> str:
    text = f"{notice.where}: {notice.what}" if notice.where else notice.what
    return f"{text} ({notice.hint})" if notice.hint else text


def _problems_error(errors: Sequence[CheckResult]) -> UsageError:
    first = errors[0]
    if len(errors) == 1:
        return UsageError(first.what, first.where, first.hint)
    lines = [f"{len(errors)} problems:"]
    lines += ["  " + format_notice(error) for error in errors]
    return UsageError("\n".join(lines))


def check_dependencies(request: SubmissionRequest, prepared: PlannedJob) -> None:
    """Raises UsageError for what the run's compute cannot wait for."""
    kind = request.config.computes[prepared.plan.compute].type
    able = "after" in prepared.compute.capabilities
    for after in request.after:
        if not able or any(handle["type"] != kind for handle in after.handles):
            what = f"{after.run_id} is where a run that goes to {prepared.plan.compute} cannot wait for it"
            raise UsageError(what, "--after", f"wait here: worldsize wait {after.run_id} && worldsize run …")
