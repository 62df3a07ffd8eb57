"""The environment of a job in its plan: the findings about it, and the settings that it applies."""

from __future__ import annotations

from collections.abc import Mapping

from worldsize.common.path_mapping import is_mapped, to_node_path
from worldsize.compute.base import CheckResult, ComputeFacts
from worldsize.environment.activation import Activation
from worldsize.errors import WorldsizeError
from worldsize.jobspec.config.config import Config
from worldsize.jobspec.job import Job
from worldsize.plan.plan import Plan
from worldsize.plan.secrets_file import plan_secret_values
from worldsize.service.environments.lookup import Environment, find_environment
from worldsize.service.providers import find_provider, provider
from worldsize.service.request import KeyOrigins, SubmissionRequest
from worldsize.service.secrets import build_environ
from worldsize.trust.directories import is_node_local
from worldsize.trust.secrets import mask_values

SHARED, LOCAL, AUTO = "shared", "local", "auto"

AUTO_NODES = 8
"""Minimum number of nodes for which an environment that was built here is packed, unless the user chose otherwise."""


def with_environment(
    request: SubmissionRequest, job: Job, facts: ComputeFacts, plan: Plan, path: tuple[str, ...]
) -> tuple[Environment | None, Activation | None, Plan, list[CheckResult]]:
    """Find the environment that `job` names, and return it, its activation, `plan` with that activation, and findings
    about the environment (CheckResult). Environment and activation are None if the job names no environment, or a wrong
    one. `path` are the directories that decide what `python` means without an environment."""
    environ = build_environ(job, request.environ)
    environment, said = find_job_environment(job, request.config, plan.compute, environ, facts, request.origins)
    found = environment.activation(request.environ) if environment is not None else None
    if environment is not None and found is not None:
        plan = with_activation(plan, job, facts, found, path)
        plan, more = _with_distribution(request, job, facts, plan, environment)
        said += more
        plan = plan._replace(name=mask_values(plan.name, plan_secret_values(plan)))  # with its variables
    if environment is not None and environment.image:
        said += provider("images").check_image(plan, job, environment.image, request)
    return environment, found, plan, said


def _with_distribution(
    request: SubmissionRequest, job: Job, facts: ComputeFacts, plan: Plan, environment: Environment
) -> tuple[Plan, list[CheckResult]]:
    """Return `plan` with the job's environment at its place on the nodes, on the shared file system or unpacked on the
    nodes' disks, and findings about it (CheckResult)."""
    if choose_distribution(environment, len(plan.nodes), facts) == SHARED:
        return plan, []
    asked = environment.archive is not None or environment.spec.distribute == LOCAL
    if not asked and find_provider("packs") is None:
        return plan, []
    settings = request.config.computes[plan.compute]
    plan, said = provider("packs").with_packed_environment(plan, job, environment, request.packed, settings, facts)
    return plan, [finding._replace(where=request.origins.of(finding.where or "")) for finding in said]


def choose_distribution(environment: Environment, nodes: int, facts: ComputeFacts) -> str:
    """Return where the nodes of a run use the environment: "shared", in its directory on the shared file system, or
    "local", unpacked on each node's disk. The user's choice counts, except "shared" for a packed environment, which is
    always "local". Without a choice, one that worldsize builds is "local" for a run of at least AUTO_NODES separate
    nodes."""
    asked, packed = environment.spec.distribute, environment.archive
    if asked != AUTO and not (packed and asked == SHARED):
        return asked
    many = environment.recipe is not None and nodes >= AUTO_NODES and not facts.shared_host
    return LOCAL if packed or many else SHARED


def find_job_environment(
    job: Job, config: Config, compute: str, environ: Mapping[str, str], facts: ComputeFacts, origins: KeyOrigins
) -> tuple[Environment | None, list[CheckResult]]:
    """Return the environment that `job` names, for the compute `compute`, and findings about it (CheckResult). The
    environment is None if the job names none, or a wrong one. Errors in the environment are findings, and are not
    raised."""
    at = origins.of("environment")
    try:
        found = find_environment(job.environment, config, compute, environ, secrets=job.secrets)
    except WorldsizeError as error:
        what = error.what if not error.where else f"{error.where}: {error.what}"
        return None, [CheckResult("error", what, at, error.hint)]
    if found is None:
        return None, []
    said = [CheckResult("notice", notice, at, id="environment") for notice in found.notices]
    why = unusable_reason(found, facts)
    if why:
        hint = "build it where they see it under the same path: envs_dir of the compute"
        return found, [CheckResult("error", why, at, hint), *said]
    return found, said


def unusable_reason(environment: Environment, facts: ComputeFacts) -> str | None:
    """Return the reason, as text, why the nodes of a compute with these `facts` could not use the environment, such as
    a directory that only this machine sees; None if they could."""
    prefix = environment.prefix
    if prefix is None or environment.archive:
        return None
    if not facts.mapped:
        elsewhere = not facts.shared_host and environment.spec.distribute in ("auto", "shared")
        alone = elsewhere and is_node_local(prefix)
        return f"{prefix} is local to this machine: no node would see it" if alone else None
    if is_mapped(prefix, facts.mapped) and to_node_path(prefix, facts.mapped) == prefix:
        return None
    return f"the nodes would not find it as {prefix}: an environment contains its own path"


def with_activation(plan: Plan, job: Job, facts: ComputeFacts, found: Activation, path: tuple[str, ...]) -> Plan:
    """Return `plan` with `found`, the activation of the job's environment, added: after all modules and the compute's
    own lines, before the job's.

    `path` are the directories that decide what `python` means without an environment. A batch script starts with the
    variables and directories, and handles scripts and modules itself. Variables with secrets are not put into lines of
    setup, which a scheduler keeps. The ranks get them in the same way as the job's variables.
    """
    from worldsize.plan.setup_script import module_line

    plan = plan._replace(secrets=(*plan.secrets, *(name for name in found.closed if name not in plan.secrets)))
    modules = (*facts.modules, *found.modules, *job.modules)
    before = (*map(module_line, modules), *facts.setup)
    first = found.path if found.prefix else (*found.path, *path)
    if job.batch_script is not None or not (before or job.setup or found.scripts):
        return plan._replace(
            path=first, library_path=found.library_path, activated=found.variables, interpreter=found.python
        )
    own = found if found.prefix else found._replace(path=first)
    own = own._replace(variables={name: value for name, value in found.variables.items() if name not in found.closed})
    closed = {name: found.variables[name] for name in found.closed}
    return plan._replace(path=(), setup=(*before, *own.lines(), *job.setup), activated=closed, interpreter=found.python)
