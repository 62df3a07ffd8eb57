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
from worldsize.plan.secrets_file import values_of
from worldsize.service.computes import choose_compute, open_compute, python_path
from worldsize.service.request import Prepared, Request
from worldsize.service.secrets import check_secrets, closed_variables, environ_of_builds, named_secrets
from worldsize.service.submission.make_plan import as_here, make_plan
from worldsize.service.submission.preflight import offline_findings, preflight
from worldsize.trust.directories import require_shared_place
from worldsize.trust.secrets import mask_values

TYPE_CHECKING = False
if TYPE_CHECKING:
    from worldsize.environment.activation import Activation
    from worldsize.plan.node_disk import Local
    from worldsize.service.environments.lookup import Environment


def plan_job(request: Request, paths: RunPaths, created: float, checked: bool = False) -> Prepared:
    """What would run, and what is to be said about it; writes nothing. UsageError with every problem at once.

    `checked`: it was looked at before, for other paths.
    """
    try:
        return _plan_job(request, paths, created, checked)
    except (UsageError, PlanError) as error:
        if error.where:
            error.where = request.places.at(error.where)
        raise


def _plan_job(request: Request, paths: RunPaths, created: float, checked: bool) -> Prepared:
    name = choose_compute(request.config, request.compute, request.job.compute)
    job = _with_grace(request.job, request.config.computes[name].grace)
    compute = open_compute(request.config, name, request.environ)
    if job.virtual_gpus is not None and "local" not in compute.capabilities:
        raise PlanError(
            "virtual GPUs are for virtual nodes, and those of %s are real" % name,
            "virtual_gpus",
            "worldsize rehearse runs the job on this machine; without virtual_gpus it runs on %s" % name,
        )
    if not checked:  # what is shown, to be submitted by hand, lies there as what is submitted does
        runs_dir = request.config.computes[name].runs_place or os.path.join(request.config.home, "runs")
        try:
            require_shared_place(os.path.abspath(runs_dir), make=False)
        except NotADirectoryError:
            pass  # the run that is made there says so, and where the path comes from
    offline = job.offline or request.config.computes[name].offline
    facts: ComputeFacts = compute.facts(job)
    if facts.mapped:
        job = as_here(job, facts.mapped)
    data, planned, local = _with_data(request, job, name, facts) if names_data(job) else ({}, job, None)
    path = _python_path(request, name, facts)
    plan = make_plan(planned, facts, name, paths, created, path, own_umask())
    closed = closed_variables(job)
    if closed:
        secrets = named_secrets(job, request.environ)
        plan = plan._replace(environment={**plan.environment, **secrets}, secrets=closed)
    plan = plan._replace(name=mask_values(plan.name, values_of(plan)))
    environment, found = None, None
    findings = [] if checked else preflight(job, plan, compute, request.places, facts.mapped)
    if job.secrets and not checked:
        findings += check_secrets(job, request.environ, request.places)
    if offline and not checked:
        findings += offline_findings(job, request.places)
    if job.environment is not None:
        environment, found, plan, said = _with_environment(request, job, facts, plan, path)
        plan = plan._replace(name=mask_values(plan.name, values_of(plan)))  # with its variables
        findings = [] if checked else sorted([*findings, *said], key=lambda finding: finding.level != "error")
    errors = [finding for finding in findings if finding.level == "error"]
    if errors:
        raise _problems(errors)
    if not (facts.shared_host or facts.mapped):  # nodes that are other machines, and call paths as this one does
        from worldsize.service.environments.loaded_paths import names_on_nodes

        plan = plan._replace(named=names_on_nodes(plan, path, environment, found))
    if local is not None:
        from worldsize.plan.node_disk import set_apart

        archive = plan.local.archive if plan.local else None
        plan = set_apart(plan._replace(local=local._replace(archive=archive)))
    if job.stage or offline:
        from worldsize.service.provisioning.offline import in_force

        settings = request.config.computes[name]._replace(offline=offline)
        plan = in_force(plan, request.staged, settings, facts.mapped)
    wrap: tuple[str, ...] = ()
    if environment is not None and environment.image:
        from worldsize.service.provisioning.image import contained

        plan, wrap = contained(plan, job, environment.image, request, facts, paths)
    return Prepared(job._replace(compute=name), plan, compute, tuple(findings), data, environment, wrap)


def needs_more(job: Job) -> bool:
    """Whether something may have to be fetched before the run is created."""
    return bool(names_data(job) or job.stage or job.environment is not None)


def names_data(job: Job) -> bool:
    """Whether an input is more than a value."""
    return any(isinstance(value, tuple) for value in job.inputs.values())


def _with_environment(
    request: Request, job: Job, facts: ComputeFacts, plan: Plan, path: tuple[str, ...]
) -> tuple[Environment | None, Activation | None, Plan, list[CheckResult]]:
    from worldsize.service.environments.in_plan import activated, look_up

    environ = environ_of_builds(job, request.environ)
    environment, said = look_up(job, request.config, plan.compute, environ, facts, request.places)
    found = environment.activation(request.environ) if environment is not None else None
    if environment is not None and found is not None:
        plan = activated(plan, job, facts, found, path)
        plan, more = _distributed(request, job, facts, plan, environment)
        said += more
    if environment is not None and environment.image:
        from worldsize.service.provisioning.image import check_image

        said += check_image(plan, job, environment.image, request)
    return environment, found, plan, said


def _distributed(
    request: Request, job: Job, facts: ComputeFacts, plan: Plan, environment: Environment
) -> tuple[Plan, list[CheckResult]]:
    """Where nothing is said, and few nodes read it, it is read where it is."""
    if environment.archive is None and environment.recipe is None and environment.spec.distribute in ("auto", "shared"):
        return plan, []
    from worldsize.service.provisioning.pack import distributed

    settings = request.config.computes[plan.compute]
    plan, said = distributed(plan, job, environment, request.packed, settings, facts)
    return plan, [finding._replace(where=request.places.at(finding.where or "")) for finding in said]


def _with_data(
    request: Request, job: Job, compute: str, facts: ComputeFacts
) -> tuple[dict[str, str], Job, Local | None]:
    from worldsize.service.provisioning.inputs import placed, with_paths

    paths, local = placed(job, request.fetched, request.config.computes[compute], facts)
    return paths, with_paths(job, paths), local


def _with_grace(job: Job, configured: float | None) -> Job:
    said_nothing = job.grace == Job._field_defaults["grace"]
    return job._replace(grace=configured) if configured is not None and said_nothing else job


def _python_path(request: Request, compute: str, facts: ComputeFacts) -> tuple[str, ...]:
    """On nodes that share no more than a directory with this machine, only what is configured for them counts."""
    if not facts.mapped:
        return python_path(request.config, compute, request.environ, request.job.batch_script is not None)
    directory = os.path.dirname(facts.python)
    return (directory,) if directory else ()


def said(notice: CheckResult) -> str:
    text = "%s: %s" % (notice.where, notice.what) if notice.where else notice.what
    return "%s (%s)" % (text, notice.hint) if notice.hint else text


def _problems(errors: Sequence[CheckResult]) -> UsageError:
    first = errors[0]
    if len(errors) == 1:
        return UsageError(first.what, first.where, first.hint)
    lines = ["%d problems:" % len(errors)]
    lines += ["  " + said(error) for error in errors]
    return UsageError("\n".join(lines))


def check_after(request: Request, prepared: Prepared) -> None:
    """Raises UsageError for what the run's compute cannot wait for."""
    kind = request.config.computes[prepared.plan.compute].type
    able = "after" in prepared.compute.capabilities
    for after in request.after:
        if not able or any(handle["type"] != kind for handle in after.handles):
            what = "%s is where a run that goes to %s cannot wait for it" % (after.run_id, prepared.plan.compute)
            raise UsageError(what, "--after", "wait here: worldsize wait %s && worldsize run …" % after.run_id)
