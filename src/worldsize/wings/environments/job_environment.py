"""The environment of a job that has to be built: functions that plan it, build it before the run, and record it with
the run."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Collection, Mapping, Sequence

from worldsize.common.atomic_files import read_object, write_json
from worldsize.common.named_tuple import Any
from worldsize.environment.existing import ExistingEnvironment, explain_missing_python, inspect_prefix
from worldsize.errors import BuildError, UsageError, WorldsizeError
from worldsize.jobspec.config.compute_types import LOCAL
from worldsize.jobspec.config.config import ComputeSettings, Config
from worldsize.jobspec.environment import EnvironmentSpec
from worldsize.plan.run_paths import RunPaths
from worldsize.service.computes import python_path
from worldsize.service.environments.location import envs_dir
from worldsize.service.environments.lookup import Environment, Recipe, image_notices
from worldsize.service.request import Progress, SubmissionRequest
from worldsize.trust.directories import is_reliable_directory, make_private_directory
from worldsize.trust.secrets import mask_values
from worldsize.wings.environments.sources import is_lock, masked_lock_variables, read_lock, with_lock_spec
from worldsize.wings.environments.workspace.prefixes import entries, find_prefix, is_ready, read_description, touch

DEFAULT_CHANNELS = ("conda-forge",)
_USER_KEYS = frozenset(("spec", "options", "steps"))
"""The keys of a description whose values a user wrote."""


def own_names(directory: str) -> dict[str, str]:
    """Return the environments that were built in `directory`: a mapping of name to path. If several have one name, the
    newest is returned."""
    ready = [entry for entry in entries(directory) if entry.state == "ready" and entry.description]
    ready.sort(key=lambda entry: (entry.description or {}).get("created", 0.0))
    names = {entry.label: entry.path for entry in ready}
    names.update({entry.name: entry.path for entry in ready})
    return names


def _refuse_conda(existing: ExistingEnvironment) -> None:
    """Raise UsageError for a job that adds conda packages to the existing environment `existing`, which is never
    changed, least of all by conda after pip."""
    from worldsize.wings.environments.conda.packages import refuse_pip_packages

    if existing.kind == "conda":
        refuse_pip_packages(existing.prefix)
    what = f"{existing.prefix} exists, and conda packages cannot be added to it"
    raise UsageError(what, None, "list all of its packages with conda:, or the additional ones with pip:")


def plan_environment(
    spec: EnvironmentSpec,
    existing: ExistingEnvironment | None,
    config: Config,
    compute: str,
    environ: Mapping[str, str],
    secrets: Collection[str],
) -> Environment:
    """Return the Environment that a job's `spec` means on a compute, whether it is built already or not. It is based on
    the environment `existing`, if given. Raise UsageError or NotFound for errors in the spec."""
    from worldsize.wings.environments.fingerprint import fingerprint, lock_fingerprint, machine_key

    if existing is not None and spec.conda:
        _refuse_conda(existing)
    settings = config.computes[compute]
    directory = envs_dir(config, settings)
    lock = None
    if spec.file and is_lock(spec.file):
        lock = read_lock(spec.file)
        spec = with_lock_spec(spec, lock)
    virtual = spec.virtual_packages or settings.virtual_packages or read_probe(config.home, compute)
    recipe = Recipe(
        spec,
        "",
        _base_of_lock(lock) or _base_interpreter(spec, existing, config, compute, environ),
        environ,
        os.path.join(config.home, "cache"),
        existing,
        spec.channels or config.conda.get("channels") or DEFAULT_CHANNELS,
        config.conda.get("channel_alias"),
        tuple(virtual),
        lock,
        tuple(secrets),
    )
    digest = lock_fingerprint(lock) if lock else fingerprint(spec, machine_key(recipe))
    recipe = recipe._replace(fingerprint=digest)
    prefix = find_prefix(directory, recipe)
    kind = "conda" if recipe.is_conda else "venv"
    remarks = (*image_notices(spec), *_unknown_node_notices(recipe, settings, compute), *_lost_variable_notices(lock))
    found = Environment(spec, ExistingEnvironment(prefix, kind, None), recipe, is_ready(prefix), remarks)
    return found._replace(config=config, compute=compute)


def _lost_variable_notices(lock: Mapping[str, Any] | None) -> tuple[str, ...]:
    names = masked_lock_variables(lock) if lock else []
    what = "the lock does not contain the value of %s: name it in `secrets`, or set it in environment_variables"
    return (what % ", ".join(names),) if names else ()


def _unknown_node_notices(recipe: Recipe, settings: ComputeSettings, compute: str) -> tuple[str, ...]:
    """Return a notice, in a tuple, if conda chooses an environment's packages for this machine, although they may not
    suit a cluster's nodes. Empty otherwise."""
    if settings.type == LOCAL or not recipe.spec.conda or recipe.virtual:
        return ()
    from worldsize.wings.environments.inspect.machine import driver_version, glibc_version

    has = "glibc {}, {}".format(glibc_version(), "a GPU driver" if driver_version() else "no GPU driver")
    return (f"conda chooses packages for this machine ({has}): worldsize env probe --compute {compute} queries a node",)


def _base_of_lock(lock: Mapping[str, Any] | None) -> str | None:
    """Return the path of the interpreter that a locked environment was made of, or its version if that interpreter is
    missing, since its wheels fit no other version. None without a lock, and for a lock with conda packages."""
    if not lock or lock["conda"]:
        return None
    base = lock.get("base")
    return str(base) if base and os.path.exists(base) else lock.get("python")


def _base_interpreter(
    spec: EnvironmentSpec,
    existing: ExistingEnvironment | None,
    config: Config,
    compute: str,
    environ: Mapping[str, str],
) -> str | None:
    """Return the base of a virtual environment: the requested Python version, "python3" if the spec loads modules, else
    the path of the interpreter that `python` means in commands. None for an environment with conda packages, or one
    based on `existing`. Raise UsageError if there is no Python."""
    if existing is not None or spec.conda:
        return None
    if spec.version or spec.modules:
        return spec.version or "python3"
    from worldsize.agent.posix.processes import find_program

    path = os.pathsep.join((*python_path(config, compute, environ), environ.get("PATH", "")))
    for name in ("python", "python3"):
        try:
            return os.path.realpath(find_program(name, {"PATH": path}))
        except OSError:
            continue
    what = "there is no python to make an environment with"
    raise UsageError(what, "environment.python", 'set a version: python: "3.11"')


def read_probe(home: str, compute: str) -> tuple[str, ...]:
    """Return the conda virtual packages that `env probe` has recorded for a node of the compute. Empty if no node was
    probed, or if another user could have written the record."""
    path = _probe_file(home, compute)
    found = read_object(path) if is_reliable_directory(os.path.dirname(path)) else {}
    return tuple(found.get("virtual_packages", ()))


def write_probe(home: str, compute: str, virtual: Sequence[str], node: str) -> None:
    """Record the conda virtual packages that `env probe` has found on the node `node` of the compute. Raise
    StorageError if another user could replace the file; OSError."""
    path = _probe_file(home, compute)
    make_private_directory(os.path.dirname(path), follow=True)
    write_json(path, {"virtual_packages": list(virtual), "node": node, "time": time.time()})


def _probe_file(home: str, compute: str) -> str:
    return os.path.join(home, "probed", compute + ".json")


def ensure_ready(
    environment: Environment, progress: Progress, start: Callable[[SubmissionRequest, Progress], RunPaths]
) -> bool:
    """Build the environment of a job unless it exists, and return whether this process built it. Other processes that
    request it at the same time wait. `start` submits a run, which executes those build steps that belong on the
    compute. Raise BuildError, StorageError or ConfigError."""
    if environment.recipe is None or environment.prefix is None:
        return False
    if environment.ready:
        _check_python(environment.prefix)
        touch(environment.prefix)
        return False
    return _build(environment, environment.recipe, environment.prefix, progress, start)


def _check_python(prefix: str) -> None:
    """Raise BuildError if the interpreter of the environment `prefix` has been removed since the environment was built:
    `python` would be the next one on PATH. The environment is not rebuilt automatically, since nodes may still have
    that interpreter."""
    if inspect_prefix(prefix) is None:
        what, hint = explain_missing_python(prefix)
        raise BuildError(what, f"environment {os.path.basename(prefix)}", hint)


def _build(
    environment: Environment,
    recipe: Recipe,
    prefix: str,
    progress: Progress,
    start: Callable[[SubmissionRequest, Progress], RunPaths],
) -> bool:
    from functools import partial

    from worldsize.wings.environments.native.build_job import end_abandoned_run, make_remote_steps
    from worldsize.wings.environments.native.steps import run_steps
    from worldsize.wings.environments.pipeline import make_environment
    from worldsize.wings.environments.workspace.builder import ensure_built

    name = os.path.basename(prefix)
    began = time.monotonic()
    progress.notice(f"building the environment {name}")
    config, compute = environment.config, environment.compute
    elsewhere = recipe.spec.build_on == "compute"
    steps = make_remote_steps(config, compute, recipe, start) if elsewhere else run_steps
    work = partial(make_environment, recipe=recipe, steps=steps)
    on_abandoned = partial(end_abandoned_run, config, recipe.environ)
    try:
        is_new = ensure_built(prefix, work, lambda what: progress.show_activity(f"{name}: {what}"), on_abandoned)
    except WorldsizeError as error:
        error.where = error.where or f"environment {name}"
        raise
    progress.notice("{} {} in {:.0f} s".format(name, "is built" if is_new else "exists", time.monotonic() - began))
    return is_new


def build_record(environment: Environment, secrets: Collection[str]) -> dict[str, Any]:
    """Return the part of a run's record about an environment that was built: its lock, with the texts `secrets` masked.
    Raise BuildError if the environment was removed meanwhile."""
    description = read_built_description(environment)
    if description is None:
        raise BuildError("it was removed in the meantime", environment.prefix, "start the run again: it is rebuilt")
    shown = {key: mask_values(description.get(key), secrets) for key in _USER_KEYS.intersection(description)}
    rows = [{**row, "url": mask_values(row.get("url"), secrets)} for row in description.get("pip", ())]
    return {**description, **shown, "pip": rows}


def read_built_description(environment: Environment) -> dict[str, Any] | None:
    """Return the description of an environment that worldsize built, whether the job names it by its contents, by its
    name or by its path. None for any other environment."""
    return read_description(environment.prefix) if environment.prefix and not environment.archive else None


def installed_packages(prefix: str) -> list[dict[str, Any]]:
    """Return the name and version of each Python package in the environment `prefix`, even in one that worldsize did
    not build."""
    from worldsize.wings.environments.inspect.installed import named_distributions

    return [{"name": each.name, "version": each.version} for each in named_distributions(prefix)]


def lost_variables(path: str) -> list[str] | None:
    """Return the names of the environment variables whose values the lock file `path` does not hold, since they were
    secrets. None if `path` is no lock file."""
    if not is_lock(path):
        return None
    return masked_lock_variables(read_lock(path))
