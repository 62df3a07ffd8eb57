"""What a job runs in: found where it is, or planned where it is still to be built."""

from __future__ import annotations

import os
from collections.abc import Collection, Mapping
from typing import Any, NamedTuple

from worldsize.environment.activation import Activation, activation
from worldsize.environment.existing import ExistingEnvironment, find_existing
from worldsize.environment.recipe import Recipe
from worldsize.environment.resolve import resolve_environment
from worldsize.errors import UsageError
from worldsize.jobspec.config.config import LOCAL, ComputeSettings, Config
from worldsize.jobspec.environment import EnvironmentSpec, is_packed_name
from worldsize.service.computes import python_path
from worldsize.service.environments.location import envs_dir, find_prefix, own_names, read_probe
from worldsize.wings.environments.workspace.prefixes import is_ready, read_description, touch

DEFAULT_CHANNELS = ("conda-forge",)


class Environment(NamedTuple):
    """An environment, wherever it is.

    spec      what it is made of
    existing  what is there to be used; of one that is not built yet, what will be
    recipe    how it is built; None for what exists anyway
    ready     whether it can be used now
    notices   what a person should know
    archive   a packed environment, of which there is no other form here
    config, compute   for which one that is built was looked up
    secrets   names of variables that hold one, beside those whose names say so
    """

    spec: EnvironmentSpec
    existing: ExistingEnvironment | None = None
    recipe: Recipe | None = None
    ready: bool = True
    notices: tuple[str, ...] = ()
    archive: str | None = None
    config: Config = Config()
    compute: str = LOCAL
    secrets: tuple[str, ...] = ()

    @property
    def image(self) -> str | None:
        """The container image that ranks run in, where nothing else says what they run in."""
        return None if self.spec.needs_build or self.spec.existing_python else self.spec.image

    @property
    def prefix(self) -> str | None:
        return self.existing.prefix if self.existing else None

    def activation(self, environ: Mapping[str, str]) -> Activation:
        upon = self.recipe.existing if self.recipe else None
        return activation(self.spec, self.existing, environ, upon, self.secrets)

    def description(self) -> dict[str, Any] | None:
        """Of one that was built, whether it is named by what it is made of, by its name or by its path."""
        return read_description(self.prefix) if self.prefix and not self.archive else None


def find_environment(
    wanted: str | Mapping[str, Any] | None,
    config: Config,
    compute: str,
    environ: Mapping[str, str],
    name: str | None = None,
    secrets: Collection[str] = (),
) -> Environment | None:
    """The environment that `wanted`, as a job says it, means on a compute. Builds nothing, and reads little.

    `name`: what it is to be called; `secrets`: the variables that the job names as such. None for the current Python,
    with nothing to say about it. UsageError, NotFound for what is wrong.
    """
    resolved = resolve_environment(wanted, config)
    if resolved.spec is None:
        return Environment(EnvironmentSpec(), notices=(resolved.notice,)) if resolved.notice else None
    found = _find_by_spec(resolved.spec, config, compute, environ, name, secrets)
    return found._replace(secrets=tuple(secrets))


def _find_by_spec(
    spec: EnvironmentSpec,
    config: Config,
    compute: str,
    environ: Mapping[str, str],
    name: str | None,
    secrets: Collection[str],
) -> Environment:
    settings = config.computes[compute]
    if name:
        spec = spec._replace(name=name)
    if spec.existing_python and is_packed_name(spec.existing_python):
        return _packed_environment(spec, spec.existing_python)
    existing = _existing_environment(spec, envs_dir(config, settings), environ)
    if not spec.needs_build:
        return Environment(spec, existing, notices=_image_notices(spec))
    if existing is not None and spec.conda:
        _refuse_conda(existing)
    return _plan_environment(spec, existing, config, compute, environ, secrets)


def _packed_environment(spec: EnvironmentSpec, path: str) -> Environment:
    from worldsize.wings.provisioning.pack_cache import environment_of_pack

    if spec.needs_build:
        raise UsageError("nothing can be installed into a packed environment", path, "name its prefix instead")
    return Environment(spec, environment_of_pack(path), notices=_image_notices(spec), archive=path)


def _existing_environment(
    spec: EnvironmentSpec, directory: str, environ: Mapping[str, str]
) -> ExistingEnvironment | None:
    if spec.existing_python is None:
        return None
    return find_existing(spec.existing_python, environ, {} if os.sep in spec.existing_python else own_names(directory))


def _refuse_conda(existing: ExistingEnvironment) -> None:
    """What exists is never changed; least of all by conda after pip."""
    from worldsize.wings.environments.conda.packages import refuse_pip_packages

    if existing.kind == "conda":
        refuse_pip_packages(existing.prefix)
    what = f"{existing.prefix} exists, and conda packages cannot be added to it"
    raise UsageError(what, None, "say all of its packages with conda:, or the additional ones with pip:")


def _plan_environment(
    spec: EnvironmentSpec,
    existing: ExistingEnvironment | None,
    config: Config,
    compute: str,
    environ: Mapping[str, str],
    secrets: Collection[str],
) -> Environment:
    from worldsize.environment.sources import is_lock, read_lock, with_lock_spec
    from worldsize.wings.environments.fingerprint import fingerprint, lock_fingerprint, machine_key

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
    print_ = lock_fingerprint(lock) if lock else fingerprint(spec, machine_key(recipe))
    recipe = recipe._replace(fingerprint=print_)
    prefix = find_prefix(directory, recipe)
    kind = "conda" if recipe.is_conda else "venv"
    remarks = (*_image_notices(spec), *_unknown_node_notices(recipe, settings, compute), *_lost_variable_notices(lock))
    found = Environment(spec, ExistingEnvironment(prefix, kind, None), recipe, is_ready(prefix), remarks)
    return found._replace(config=config, compute=compute)


def _lost_variable_notices(lock: Mapping[str, Any] | None) -> tuple[str, ...]:
    from worldsize.environment.sources import masked_lock_variables

    names = masked_lock_variables(lock) if lock else []
    what = "the lock does not hold what %s was set to: name it in `secrets`, or set it in environment_variables"
    return (what % ", ".join(names),) if names else ()


def _unknown_node_notices(recipe: Recipe, settings: ComputeSettings, compute: str) -> tuple[str, ...]:
    """Packages that conda chooses for this machine may not be those for a cluster's nodes."""
    if settings.type == LOCAL or not recipe.spec.conda or recipe.virtual:
        return ()
    from worldsize.wings.environments.inspect.machine import driver_version, glibc_version

    has = "glibc {}, {}".format(glibc_version(), "a GPU driver" if driver_version() else "no GPU driver")
    return (f"conda chooses for what this machine has ({has}): worldsize env probe --compute {compute} asks a node",)


def _base_of_lock(lock: Mapping[str, Any] | None) -> str | None:
    """The interpreter that the locked environment was made of, or one of the same version: its wheels fit no other."""
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
    """What a virtual environment is made of: the version that is asked for, else what `python` means in commands."""
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
    what = "there is no python to make an environment of"
    raise UsageError(what, "environment.python", 'say a version: python: "3.11"')


def _image_notices(spec: EnvironmentSpec) -> tuple[str, ...]:
    if spec.image is None:
        return ()
    if spec.needs_build or spec.existing_python:
        return (f"the container image {spec.image} is not used: what is in the environment is built without it",)
    return ()


def mark_used(environment: Environment) -> None:
    """It is needed now: whoever tidies up sees that."""
    if environment.recipe and environment.prefix:
        touch(environment.prefix)
