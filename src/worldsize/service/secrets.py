"""The secrets of a job. They are read where the job is submitted, and are written to no file but one."""

from __future__ import annotations

import json
from collections.abc import Collection, Mapping, Sequence

from worldsize.common.named_tuple import Any
from worldsize.compute.base import CheckResult
from worldsize.errors import UsageError
from worldsize.jobspec.dump import dump_tree, job_tree
from worldsize.jobspec.job import Job
from worldsize.plan.plan import Plan
from worldsize.plan.secrets_file import plan_secret_values
from worldsize.registry import find_module
from worldsize.service.request import KeyOrigins
from worldsize.trust.procfs import withheld_variables, without_variables
from worldsize.trust.secrets import MASK, is_secret, mask_tree, mask_values, secret_values

_KEYS = ("argv", "environment", "setup", "options", "activated", "local", "step", "notify")
"""The keys of a plan that contain text of the user."""


def named_secrets(job: Job, environ: Mapping[str, str]) -> dict[str, str]:
    """Return the variables that `secrets:` names, with their values in `environ`. Missing variables are left out."""
    return {name: environ[name] for name in job.secrets if name in environ}


def rank_only_variables(job: Job) -> tuple[str, ...]:
    """Return the names of the environment variables that only ranks may have: those that `secrets:` names, and those of
    the job's `environment_variables` that contain a secret, which a shell may also export."""
    own = (name for name, value in job.environment_variables.items() if is_secret(name, value))
    return (*job.secrets, *(name for name in own if name not in job.secrets))


def build_environ(job: Job, environ: Mapping[str, str]) -> dict[str, str]:
    """Return the environment variables for the programs that build a job's `environment`: `environ` without secrets
    that the requirements of the environment do not refer to."""
    wanted = job.environment if isinstance(job.environment, Mapping) else {"file": job.environment}
    return restricted_environ([*_texts(wanted.get("pip")), *_texts(wanted.get("file"))], job, environ)


def restricted_environ(lines: Sequence[str], job: Job, environ: Mapping[str, str]) -> dict[str, str]:
    """Return the environment variables for programs that install the requirements `lines`, such as pip: `environ`
    without the variables that `secrets:` names, except those that a line refers to, for instance as the login of a
    repository."""
    if not job.secrets:
        return without_variables(environ, withheld_variables((), environ))
    asked = variables_of_requirements(lines)
    return without_variables(environ, [name for name in withheld_variables(job.secrets, environ) if name not in asked])


def variables_of_requirements(lines: Sequence[str]) -> set[str]:
    """Return the names of the environment variables that pip requirements `lines`, and the files that they include,
    refer to. The set is empty if this installation has no wing to install them."""
    reader = find_module("wings.environments.pip.requirements")
    return set(reader.referenced_variables(lines)) if reader else set()


def _texts(value: Any) -> list[str]:
    return [each for each in (value if isinstance(value, (list, tuple)) else [value]) if isinstance(each, str)]


def check_secrets(job: Job, environ: Mapping[str, str], origins: KeyOrigins) -> list[CheckResult]:
    """Return the errors in the job's `secrets:`, as a list of CheckResult: variables that are not set in `environ`, and
    those that are also in `environment_variables`."""
    found = [
        CheckResult("error", f"{name} is not set here", origins.of("secrets"), f"export {name}=… and try again")
        for name in job.secrets
        if name not in environ
    ]
    found += [
        CheckResult("error", f"{name} is in environment_variables, too", origins.of("secrets"), "leave one out")
        for name in job.secrets
        if name in job.environment_variables
    ]
    return found


def varied_secrets(varied: Sequence[Mapping[str, Any]]) -> list[str]:
    """Return the texts that are secrets in any element of an array, found in `varied`, the values of the inputs that
    vary, one mapping per element. The files of each element contain none of these secrets."""
    texts = ({name: str(value) for name, value in each.items()} for each in varied)
    return list(dict.fromkeys(secret for each in texts for secret in secret_values(each)))


def masked_job_text(job: Job, plan: Plan, also: Collection[str] = ()) -> str:
    """Return the job as the YAML text that is written to its run's job.yml. Variables that contain secrets are listed
    under `secrets`, so that a user who submits the job again is asked for them. All other secrets, and the texts
    `also`, are masked."""
    variables = {name: value for name, value in job.environment_variables.items() if not is_secret(name, value)}
    names = dict.fromkeys((*job.secrets, *(name for name in job.environment_variables if name not in variables)))
    tree = job_tree(job._replace(environment_variables=variables, secrets=()))
    masked: dict[str, Any] = mask_tree(mask_values(tree, [*plan_secret_values(plan), *also]), sparing=True)
    return dump_tree({**masked, "secrets": list(names)} if names else masked)


def refuse_masked(job: Job) -> None:
    """Raise UsageError if a job that was read from a former run contains the mask in place of a secret that has not
    been set again."""
    for key, value in job_tree(job).items():
        if MASK in json.dumps(value):
            what = f"holds {MASK} where the earlier run had a secret, which is stored nowhere"
            hint = f"let it use a variable that `secrets` names; or set it again: --set {key}=…"
            raise UsageError(what, f"{job.source}: {key}", hint)


def split_secrets(plan: Plan, also: Collection[str] = ()) -> tuple[Plan, dict[str, Any]]:
    """Split a run's plan: return the plan as it may be written down, with secrets masked, and the part that may not be
    written there: whole keys of the plan, as JSON. `also` are further texts that are secrets."""
    values = [*plan_secret_values(plan), *also]
    plan = plan._replace(labels=mask_values(plan.labels, values))  # no rank needs the unmasked labels
    tree = json.loads(plan.to_json())
    masked = {key: mask_tree(mask_values(tree[key], values), sparing=True) for key in _KEYS if tree.get(key)}
    for key in {"environment", "activated"} & masked.keys():
        masked[key].update({name: MASK for name in plan.secrets if tree[key].get(name)})
    hidden = {key: tree[key] for key, value in masked.items() if value != tree[key]}
    if not hidden:
        return plan, {}
    shown = {**tree, **{key: masked[key] for key in hidden}, "hidden": list(hidden)}
    return Plan.from_json(json.dumps(shown)), hidden
