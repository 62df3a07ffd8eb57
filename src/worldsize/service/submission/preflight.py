"""Checks that find the problems of a run before anything is created."""

from __future__ import annotations

import os
import shlex
from collections.abc import Mapping

from worldsize.common.path_mapping import is_mapped, to_client_path
from worldsize.compute.base import CheckResult, Compute, ComputeFacts
from worldsize.jobspec.job import Input, Job
from worldsize.jobspec.paths import is_remote
from worldsize.plan.launchers import launcher_facts
from worldsize.plan.plan import Plan
from worldsize.registry import find_module
from worldsize.service.request import KeyOrigins, SubmissionRequest
from worldsize.service.submission.plan_additions import service_notices

_INTERPRETERS = ("python", "python3", "bash", "sh")


def preflight(job: Job, plan: Plan, compute: Compute, origins: KeyOrigins, facts: ComputeFacts) -> list[CheckResult]:
    """Return all problems of a job that can be found before its run is created, as a list of CheckResult, errors first.
    `facts` are those of the compute."""
    found = [
        *_code(job, origins),
        *_includes(job, origins),
        *_script(job, origins, facts.mapped),
        *_hidden_failures(job, origins),
        *_inputs(job, origins, facts),
        *_environment_files(job, origins),
        *_rank_variables(job, plan, origins),
        *([] if facts.hosted else service_notices(job, origins)),
        *_batch_script(job, plan),
        *_launcher(plan, compute),
        *(_with_origin(result, job, origins) for result in compute.check(job, plan)),
    ]
    return sorted(found, key=lambda result: result.level != "error")


def _launcher(plan: Plan, compute: Compute) -> list[CheckResult]:
    program = launcher_facts(plan.launcher).step_program
    if not program or "steps" in compute.capabilities:
        return []
    what = f"{plan.compute} has no {program} to start MPI ranks"
    return [CheckResult("error", what, "distribution.launcher", "launcher: mpirun needs no ssh either")]


def _inputs(job: Job, origins: KeyOrigins, facts: ComputeFacts) -> list[CheckResult]:
    if not any(isinstance(value, Input) for value in job.inputs.values()):
        return []
    from worldsize.service.submission.preflight_inputs import check_inputs

    return check_inputs(job, origins, facts.hosted)


def offline_findings(job: Job, origins: KeyOrigins) -> list[CheckResult]:
    """Return the problems that the job would have because its nodes reach no network, as a list of CheckResult; none if
    this installation is without the wing for checks."""
    from worldsize.service.providers import find_provider

    checks = find_provider("checks")
    return list(checks.offline_notices(job, origins)) if checks else []


def _with_origin(result: CheckResult, job: Job, origins: KeyOrigins) -> CheckResult:
    if not result.where:
        return result
    if job.batch_script is not None and not origins.is_set(result.where):
        from worldsize.service.submission.batch_script import script_check

        line = script_check().option_origin(job, result.where)
        return result._replace(where=line or origins.of(result.where))
    return result._replace(where=origins.of(result.where))


def script_of_command(job: Job) -> str | None:
    """Return the script file that the first words of the job's command name, relative to the code: `python -u train.py
    …` gives train.py. None if there is no such script."""
    words = list(job.argv)
    if not words:
        try:
            words = shlex.split(job.command.strip().splitlines()[0], comments=True)
        except (ValueError, IndexError):
            return None
    if not words or os.path.basename(words[0]) not in _INTERPRETERS:
        return None
    for word in words[1:]:
        if word in ("-u", "-B", "-O", "-s", "-E", "-I", "-x", "-e"):
            continue
        plain = word.endswith((".py", ".sh")) and not any(sign in word for sign in "$`*?~{")
        return word if plain and not word.startswith("-") else None
    return None


def _code(job: Job, origins: KeyOrigins) -> list[CheckResult]:
    if job.code is None or os.path.isdir(job.code):
        return []
    if is_remote(job.code):
        what, hint = "code must be a local directory here", "clone it, and name the directory"
    elif os.path.exists(job.code):
        what, hint = f"{job.code} is not a directory", "name the directory that holds the script"
    else:
        what, hint = f"no such directory: {job.code}", "correct `code:`, which is relative to the job file"
        if origins.of("code") == "--code":
            hint = "correct --code, which is relative to the current directory"
    return [CheckResult("error", what, origins.of("code"), hint)]


def _includes(job: Job, origins: KeyOrigins) -> list[CheckResult]:
    if not job.additional_includes:
        return []
    from worldsize.snapshot.includes import include_problems

    return [
        CheckResult("error", what, origins.of("additional_includes"), hint)
        for what, hint in include_problems(job.code, job.additional_includes)
    ]


def _is_included(job: Job, script: str) -> bool:
    if not job.additional_includes:
        return False
    from worldsize.snapshot.includes import find_in_includes

    return find_in_includes(job.additional_includes, script) is not None


def _script(job: Job, origins: KeyOrigins, mapped: tuple[tuple[str, str], ...]) -> list[CheckResult]:
    script = script_of_command(job)
    if script is None or (job.code and not os.path.isdir(job.code)):
        return []
    if mapped and os.path.isabs(script):
        script = to_client_path(script, mapped)
        if not is_mapped(script, mapped):
            return []  # a path on the nodes only
    if os.path.isabs(script):
        missing, looked = not os.path.exists(script), script
    elif _is_included(job, script):
        return []
    elif job.code is None:
        missing, looked = True, "nowhere: the job names no code"
    else:
        missing, looked = not os.path.exists(os.path.join(job.code, script)), job.code
    if not missing:
        return _outside(job, script, origins)
    hint = "the command runs in the snapshot of `code:`; name the script relative to it"
    if job.code is None:
        hint = "set `code: .` to snapshot the job file's directory and run there"
    return [CheckResult("error", f"script not found: {script} (looked in {looked})", origins.of("command"), hint)]


def _outside(job: Job, script: str, origins: KeyOrigins) -> list[CheckResult]:
    """Return the error, as a list, for the command's `script` if it exists outside the job's code directory; an empty
    list otherwise. A run has a snapshot of the code directory only."""
    if os.path.isabs(script) or not job.code or not os.path.normpath(script).startswith(os.pardir + os.sep):
        return []
    path = os.path.normpath(os.path.join(job.code, script))
    above = os.path.commonpath((job.code, path))
    inside = os.path.relpath(path, above)
    hint = f"name a directory that contains it in `code:` ({above}), and the script relative to that: {inside}"
    if job.source == "command line":
        said = above if origins.of("code") == "--code" else os.path.relpath(above, job.code)
        command = shlex.join(inside if word == script else word for word in job.argv)
        hint = f"name a directory that contains it: --code {shlex.quote(said)} -- {command}"
    what = f"{script} is outside the code directory, {job.code}: a run has a snapshot of that directory only"
    return [CheckResult("error", what, origins.of("command"), hint)]


def _environment_files(job: Job, origins: KeyOrigins) -> list[CheckResult]:
    """Return an error for each missing local file that the job's `environment` names in the form of a mapping for Azure
    (`conda_file`, `build`)."""
    environment = job.environment
    named: dict[str, object] = {}
    if environment and not isinstance(environment, str):
        build = environment.get("build")
        build = build if isinstance(build, Mapping) else {}
        named["environment.conda_file"] = environment.get("conda_file")
        named["environment.build.path"] = build.get("path")
        if build.get("path") and build.get("dockerfile_path"):
            named["environment.build.dockerfile_path"] = os.path.join(build["path"], build["dockerfile_path"])
    return [
        CheckResult("error", f"no such file or directory: {path}", origins.of(key), "correct it, or leave it out")
        for key, path in named.items()
        if isinstance(path, str) and not is_remote(path) and not os.path.exists(path)
    ]


def _batch_script(job: Job, plan: Plan) -> list[CheckResult]:
    if job.batch_script is None:
        return []
    from worldsize.service.submission.batch_script import script_check

    return script_check().check(job, plan)


def _hidden_failures(job: Job, origins: KeyOrigins) -> list[CheckResult]:
    if "|" not in job.command and "&" not in job.command:
        return []
    from worldsize.service.submission.hidden_failures import hidden_failures

    return hidden_failures(job, origins)


def azure_notices(request: SubmissionRequest, job: Job) -> list[CheckResult]:
    """Return notices about settings of the job that only Azure's service may honour, and about the meaning of Azure's
    names here; none if this installation is without the wing."""
    keys = (job.properties, job.queue_settings, job.identity, job.parent_job_name, job.outputs)
    if not any((*keys, *job.resources[1:])) and not (job.compute or "").startswith("azureml:"):
        return []
    module = find_module("wings.azure.notices")
    return list(module.notices(request, job)) if module is not None else []


def _rank_variables(job: Job, plan: Plan, origins: KeyOrigins) -> list[CheckResult]:
    if not (job.environment_variables or job.secrets):
        return []
    from worldsize.plan.variable_conflicts import UNSET, contradictions

    said = (*job.environment_variables, *job.secrets)
    wanted = {name: plan.environment[name] for name in said if name in plan.environment}
    return [
        CheckResult(
            "error",
            f"{name} is a rank variable: the plan makes it {expected}, the job {wanted[name]}",
            origins.of("environment_variables." + name),
            "leave it out: {}".format(
                "no single value is right for every rank" if expected == UNSET else "every rank gets the right value"
            ),
        )
        for name, expected in contradictions(plan, wanted)
    ]
