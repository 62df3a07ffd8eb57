"""Planning and checking of a job on its compute. Writes nothing."""

from __future__ import annotations

import os
import shlex

from worldsize.common.debug_notes import note_decision
from worldsize.common.named_tuple import Any, NoReturn
from worldsize.common.umask import own_umask
from worldsize.compute.base import CheckResult, Compute, ComputeFacts
from worldsize.errors import PlanError, UsageError
from worldsize.jobspec.job import Job, element_job, element_values, has_search, is_array_job
from worldsize.plan.plan import ArrayElement, Plan
from worldsize.plan.run_paths import RunPaths
from worldsize.plan.secrets_file import plan_secret_values
from worldsize.service.computes import choose_compute, open_compute, python_path
from worldsize.service.request import PlannedJob, SubmissionRequest
from worldsize.service.secrets import check_secrets, varied_secrets
from worldsize.service.submission.checks import script_notices, with_check
from worldsize.service.submission.make_plan import make_plan, with_client_paths, with_run_directory
from worldsize.service.submission.plan_additions import with_metrics, with_notify, with_secrets, with_start
from worldsize.service.submission.preflight import azure_notices, offline_findings, preflight
from worldsize.service.submission.rank_packages import with_programs
from worldsize.trust.directories import require_shared_directory

TYPE_CHECKING = False
if TYPE_CHECKING:
    from worldsize.plan.node_disk import NodeDiskPlan


def plan_job(request: SubmissionRequest, created: float, former: PlannedJob | None = None) -> PlannedJob:
    """Return the planned job (plan, compute, facts, notices) for a run directory that does not exist yet, after
    checking it. Writes nothing. `plan_at` makes the plan for a real directory. Raise PreflightError with all problems
    at once; UsageError or PlanError if the job cannot be planned.

    `former` is the result of an earlier call, before something was fetched or built. If it is set, the compute is not
    queried again, and nothing is checked.
    """
    try:
        defaults: list[CheckResult] = []
        if former is None and (request.config.defaults or request.config.forbidden):
            from worldsize.service.site_rules import with_site_rules

            request, defaults = with_site_rules(request)
        planned = _plan_job(request, created, former)
        return planned._replace(notices=(*planned.notices, *defaults)) if defaults else planned
    except (UsageError, PlanError) as error:
        if error.where:
            error.where = request.origins.of(error.where)
        raise


def _plan_job(request: SubmissionRequest, created: float, former: PlannedJob | None) -> PlannedJob:
    if request.job.input_types:
        from worldsize.service.submission.typed_inputs import input_findings

        if wrong := input_findings(request.job, request.origins):
            _refuse(wrong)
    nowhere = RunPaths(os.path.join(request.config.home, "runs", "-"))
    paths = _first_element(nowhere) if is_array_job(request.job) else nowhere
    search = _search(request.job)
    elements = search.settings if search else tuple(element_values(request.job))
    if former is None:
        single = search.job if search else element_job(request.job, elements[0])
        name, job, compute, facts = _ask_compute(request, single)
    else:
        name, job, compute, facts = former.plan.compute, former.job, former.compute, former.facts
    data, placed, local = _with_data(request, job, name, facts)
    path = _python_path(request, name, facts)
    plan = with_secrets(make_plan(placed, facts, name, paths, created, path, own_umask()), job, request.environ)
    findings = [] if former else _find_problems(request, job, plan, compute, facts)
    if search and not former:
        findings += search.find_problems(job, compute, request.origins)
    environment, found = None, None
    if job.environment is not None and not facts.hosted:
        from worldsize.service.environments.in_plan import with_environment

        environment, found, plan, said = with_environment(request, job, facts, plan, path)
        findings += [] if former else said
    if request.dry:
        findings = [_not_checked(finding) if finding.local else finding for finding in findings]
    if errors := [finding for finding in findings if finding.level == "error"]:
        _refuse(errors)
    loaded = None
    if not (facts.shared_host or facts.mapped):  # the nodes are other machines, with the same paths as this one
        from worldsize.service.environments.loaded_paths import paths_of_environment

        loaded = paths_of_environment(plan, path, environment, found)
    plan = with_metrics(_with_provisions(plan, request, job, local, facts), request.config)
    plan = with_check(with_notify(plan, job, request.config.notify), request, job, facts)
    if request.terminal or request.debugger is not None:
        from worldsize.service.debugging import with_debugger, with_terminal

        if is_array_job(request.job):
            raise PlanError("one run is debugged at a time", "--debugpy", "leave out matrix, count and autotune")
        kind = request.config.computes[name].type
        plan = with_terminal(plan) if request.debugger is None else with_debugger(plan, request.debugger, kind)
    image = environment.image if environment is not None else None
    plan = with_start(plan, job, facts, request.config.computes[name].preload or request.config.preload, image)
    if job.stage or plan.local is not None:
        _require_providers(job, plan)
    job = job._replace(compute=name)
    notices = tuple(findings)
    planned = PlannedJob(job, plan, paths, compute, facts, notices, data, environment, loaded, (), elements)
    size = f"{len(plan.nodes)} nodes, {plan.world_size} ranks, launcher {plan.launcher}"
    note_decision(f"plan: {size}; first on PATH: {':'.join(plan.path) or 'nothing'}; {shlex.join(plan.argv)}")
    if is_array_job(request.job):
        planned = _as_array(planned, search.at_once if search else request.job.at_once)
    if search:
        planned = planned._replace(plan=search.with_trials(planned.plan))
    return plan_at(planned, request, nowhere)


def _refuse(errors: list[CheckResult]) -> NoReturn:
    from worldsize.service.submission.findings import problems_error

    raise problems_error(errors)


def _search(job: Job) -> Any:
    """Return the Search of a job whose runs are trials of a hyperparameter search or of autotuning; None for other
    jobs. Raise ConfigError if this installation is without the wing."""
    if not has_search(job):
        return None
    from worldsize.service.providers import provider

    return provider("searches").make_search(job)


def _with_provisions(
    plan: Plan, request: SubmissionRequest, job: Job, local: NodeDiskPlan | None, facts: ComputeFacts
) -> Plan:
    """Return `plan` with what its nodes do for their inputs (`local`), and with the environment variables by which
    ranks find staged files and know that they are offline."""
    if local is not None:
        plan = plan._replace(local=local._replace(archive=plan.local.archive if plan.local else None))
    offline = _is_offline(request, job, plan.compute)
    if not (job.stage or offline):
        return plan
    from worldsize.service.submission.staged import with_staging_variables

    settings = request.config.computes[plan.compute]._replace(offline=offline)
    return with_staging_variables(plan, request.staged, settings, facts.mapped)


def _require_providers(job: Job, plan: Plan) -> None:
    """Raise ConfigError if this installation is without the wing that stages files, or the one that prepares the nodes'
    disks, and the job needs it."""
    from worldsize.service.providers import provider

    if job.stage:
        provider("staging")
    if plan.local is not None:
        provider("node_disk")


def plan_at(planned: PlannedJob, request: SubmissionRequest, paths: RunPaths) -> PlannedJob:
    """Return the planned job with the plan for the real directory `paths` of a run, or of an array, whose first element
    is then planned."""
    plan, first = planned.plan, paths
    if plan.array is not None:
        first = _first_element(paths)
        plan = plan._replace(array=plan.array._replace(run_id=paths.run_id))
    plan = plan_in_directory(planned._replace(plan=plan), 0, first)
    if planned.job.virtual_gpus is not None:
        plan = with_programs(plan, planned.job, planned.paths, first)
    if planned.loaded is not None:
        plan = plan._replace(named=_named_paths(planned, first))
    if plan.local is not None:
        from worldsize.plan.node_disk import with_local_variables

        plan = with_local_variables(plan)
    wrap: tuple[str, ...] = ()
    if planned.environment is not None and planned.environment.image:
        from worldsize.service.providers import provider

        image = planned.environment.image
        plan, wrap = provider("images").wrap_in_container(plan, planned.job, image, request, planned.facts, first)
    return planned._replace(plan=plan, paths=first, wrap=wrap)


def _first_element(paths: RunPaths) -> RunPaths:
    """Return the paths of the run directory of element 0 of the array whose directory is `paths`."""
    from worldsize.plan.array import element_root

    return RunPaths(element_root(paths.root, 0))


def _not_checked(finding: CheckResult) -> CheckResult:
    """Return the finding of a preflight check as a notice that it was not checked here, for a dry run, which needs no
    cluster."""
    return finding._replace(level="notice", what=f"not checked here: {finding.what}")


def planned_element_job(planned: PlannedJob, element: int) -> Job:
    """Return the job of the run number `element` of a planned array, with that run's own input values."""
    values = {} if "search" in planned.plan.options else planned.elements[element]
    return planned.job._replace(inputs={**planned.job.inputs, **values}) if values else planned.job


def secrets_of_elements(planned: PlannedJob) -> list[str]:
    """Return the texts that are secrets in any run of an array, found in the inputs that vary and in secret variables
    with expressions. The files of each of the runs contain none of them. An empty list for a single run."""
    if not planned.elements[0]:
        return []
    found = dict.fromkeys(varied_secrets(planned.elements))
    if any("${{" in planned.job.environment_variables.get(name, "") for name in planned.plan.secrets):
        for element in range(len(planned.elements)):
            found.update(dict.fromkeys(plan_secret_values(plan_in_directory(planned, element, planned.paths))))
    return list(found)


def plan_in_directory(planned: PlannedJob, element: int, paths: RunPaths) -> Plan:
    """Return the plan of run number `element` of an array, or of a single run, with the command and variables for the
    run directory `paths`."""
    job = planned_element_job(planned, element)
    if planned.facts.hosted:
        from worldsize.service.submission.inputs import with_hosted_places

        job = with_hosted_places(job)
    elif planned.data:
        from worldsize.service.submission.inputs import with_input_paths

        job = with_input_paths(job, planned.data)
    return with_run_directory(planned.plan, job, paths, planned.facts.mapped)


def _named_paths(planned: PlannedJob, paths: RunPaths) -> tuple[str, ...]:
    """Return the file paths that nodes check for visibility before they start ranks: those that are loaded in any case,
    and those that the runs of the planned job name, all of which have the same script. Paths that contain secrets are
    left out."""
    from worldsize.service.environments.loaded_paths import paths_named_in_plan, without_secrets

    named = dict.fromkeys(planned.loaded or ())
    for element in range(len(planned.elements) if planned.elements[0] else 1):
        named.update(dict.fromkeys(paths_named_in_plan(plan_in_directory(planned, element, paths))))
    return without_secrets(named, [*plan_secret_values(planned.plan), *secrets_of_elements(planned)])


def _as_array(planned: PlannedJob, at_once: int | None) -> PlannedJob:
    """Return the planned job as the first run of an array, of which at most `at_once` runs execute at the same time. A
    notice is added if the compute starts all of them at once."""
    number, plan, facts = len(planned.elements), planned.plan, planned.facts
    at_once = at_once or _element_limit(plan, facts)
    notices = planned.notices
    if "array" not in planned.compute.capabilities:
        from worldsize.compute.capabilities import ALLOCATION, start_place

        place = start_place(planned.compute)
        hint = "in a job of their own each can have nodes to itself: leave the allocation's shell"
        told = CheckResult(
            "notice",
            f"{place} all {number} runs start at once",
            "at_once",
            hint if place == ALLOCATION else None,
            id="array-at-once",
        )
        notices, at_once = (*notices, told), None
    plan = plan._replace(array=ArrayElement(0, number, "", at_once))
    if facts.shared_host and plan.threads is not None and not planned.job.threads:  # the elements share its cores
        plan = plan._replace(threads=max(1, plan.threads // min(at_once or 1, number)))
    return planned._replace(plan=plan, notices=notices)


def _element_limit(plan: Plan, facts: ComputeFacts) -> int | None:
    """Return how many elements of an array may run at once on a machine without a scheduler: as its cores allow, and
    one if it has GPUs. None for nodes with a scheduler, and if the number of cores is unknown."""
    if not facts.shared_host or facts.cores_per_node is None:
        return None
    return 1 if plan.gpus else max(1, facts.cores_per_node // plan.world_size)


def _ask_compute(request: SubmissionRequest, job: Job) -> tuple[str, Job, Compute, ComputeFacts]:
    """Choose and open the compute of a job. Return its name, the job with the compute's settings and this machine's
    paths, the compute, and its facts. Raise PlanError if the job has virtual GPUs and the compute is not local."""
    name = choose_compute(request.config, request.compute, job.compute)
    settings = request.config.computes[name]
    note_decision(f"compute: {name}, of type {settings.type}")
    job = _with_grace(job, settings.grace)
    compute = open_compute(request.config, name, request.environ)
    if job.virtual_gpus is not None and "local" not in compute.capabilities:
        raise PlanError(
            f"virtual GPUs are for virtual nodes, and those of {name} are real",
            "virtual_gpus",
            f"worldsize rehearse runs the job on this machine; without virtual_gpus it runs on {name}",
        )
    runs_dir = settings.own_runs_dir or os.path.join(request.config.home, "runs")
    try:  # a dry run's script, which users may submit by hand, uses this directory too
        require_shared_directory(os.path.abspath(runs_dir), make=False)
    except NotADirectoryError:
        pass  # creating the run reports this error, with the origin of the path
    facts = compute.facts(job)
    if request.config.azure.get("data") and not facts.hosted:
        from worldsize.service.submission.inputs import with_mapped_data

        job = with_mapped_data(job, request.config)
    return name, with_client_paths(job, facts.mapped) if facts.mapped else job, compute, facts


def _find_problems(
    request: SubmissionRequest, job: Job, plan: Plan, compute: Compute, facts: ComputeFacts
) -> list[CheckResult]:
    found = preflight(job, plan, compute, request.origins, facts)
    if not facts.hosted:
        found += azure_notices(request, job)
    if job.secrets:
        found += check_secrets(job, request.environ, request.origins)
    if _is_offline(request, job, plan.compute) and request.check is None:  # a check reports that in rows of its own
        found += offline_findings(job, request.origins)
    return found + script_notices(request, job, plan, facts)


def _is_offline(request: SubmissionRequest, job: Job, compute: str) -> bool:
    return job.offline or request.config.computes[compute].offline


def has_data_inputs(job: Job) -> bool:
    """Return whether an input of the job is more than a plain value, such as data with a path."""
    return any(isinstance(value, tuple) for value in job.inputs.values())


def _with_data(
    request: SubmissionRequest, job: Job, compute: str, facts: ComputeFacts
) -> tuple[dict[str, str], Job, NodeDiskPlan | None]:
    if not (facts.hosted or has_data_inputs(job)):
        return {}, job, None
    from worldsize.service.submission.inputs import locate_inputs, with_hosted_places, with_input_paths

    if facts.hosted:
        return {}, with_hosted_places(job), None
    paths, local = locate_inputs(job, request.fetched, request.config.computes[compute], facts)
    return paths, with_input_paths(job, paths), local


def _with_grace(job: Job, configured: float | None) -> Job:
    said_nothing = job.grace == Job._field_defaults["grace"]
    return job._replace(grace=configured) if configured is not None and said_nothing else job


def _python_path(request: SubmissionRequest, compute: str, facts: ComputeFacts) -> tuple[str, ...]:
    """Return the directories at the beginning of PATH that decide which program `python` is for the ranks. On nodes
    that share only a directory with this machine, it is the directory of the configured interpreter alone."""
    if not facts.mapped:
        return python_path(request.config, compute, request.environ, request.job.batch_script is not None)
    directory = os.path.dirname(facts.python)
    return (directory,) if directory else ()
