"""What a job runs in: found where it is, or planned where it is still to be built; and written down with the run."""

from __future__ import annotations

import os
from collections.abc import Collection, Mapping

from worldsize.common.atomic_files import read_json, write_json
from worldsize.common.named_tuple import Any, NamedTuple
from worldsize.environment.activation import Activation, activation
from worldsize.environment.existing import ExistingEnvironment, find_existing
from worldsize.environment.resolve import resolve_environment
from worldsize.jobspec.config.compute_types import LOCAL
from worldsize.jobspec.config.config import Config
from worldsize.jobspec.environment import EnvironmentSpec, is_packed_name
from worldsize.plan.run_paths import RunPaths
from worldsize.service.environments.location import envs_dir
from worldsize.service.providers import find_provider, provider


class Recipe(NamedTuple):
    """What an environment is made of, and for.

    spec         complete
    fingerprint  its own
    base         the interpreter, or version, of a virtual environment; None where conda brings it
    environ      the environment of whoever asked
    cache        a directory for what is worth keeping
    existing     the environment that is built upon
    channels, alias, virtual   for conda: addresses or names; where names are; what the nodes have (empty: as here)
    lock         a lock file's content: exactly these packages
    secrets      names of variables that hold some, whatever they are called
    """

    spec: EnvironmentSpec
    fingerprint: str
    base: str | None
    environ: Mapping[str, str]
    cache: str
    existing: ExistingEnvironment | None = None
    channels: tuple[str, ...] = ()
    alias: str | None = None
    virtual: tuple[str, ...] = ()
    lock: Mapping[str, Any] | None = None
    secrets: tuple[str, ...] = ()

    @property
    def is_conda(self) -> bool:
        return bool(self.lock["conda"] if self.lock else self.spec.conda)


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


def find_environment(
    wanted: str | Mapping[str, Any] | None,
    config: Config,
    compute: str,
    environ: Mapping[str, str],
    name: str | None = None,
    secrets: Collection[str] = (),
) -> Environment | None:
    """Return the environment that `wanted`, as a job says it, means on a compute. Builds nothing, and reads little.

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
        packed: Environment = provider("packs").packed_environment(spec, spec.existing_python)
        return packed
    existing = _existing_environment(spec, envs_dir(config, settings), environ)
    if not spec.needs_build:
        return Environment(spec, existing, notices=image_notices(spec))
    planned: Environment = provider("environments").plan_environment(spec, existing, config, compute, environ, secrets)
    return planned


def _existing_environment(
    spec: EnvironmentSpec, directory: str, environ: Mapping[str, str]
) -> ExistingEnvironment | None:
    if spec.existing_python is None:
        return None
    built = None if os.sep in spec.existing_python else find_provider("environments")
    return find_existing(spec.existing_python, environ, built.own_names(directory) if built else {})


def image_notices(spec: EnvironmentSpec) -> tuple[str, ...]:
    """Notices about the container image that an environment names."""
    if spec.image is None:
        return ()
    if spec.needs_build or spec.existing_python:
        return (f"the container image {spec.image} is not used: what is in the environment is built without it",)
    return ()


def record_environment(environment: Environment, paths: RunPaths, secrets: Collection[str]) -> None:
    """Write down what the run runs in: of a built environment its lock, else what can be seen of it; without the texts
    `secrets`. BuildError where the environment was removed meanwhile; OSError."""
    built = environment.recipe is not None
    value = provider("environments").build_record(environment, secrets) if built else _record_of_existing(environment)
    write_json(paths.environment, value)


def _record_of_existing(environment: Environment) -> dict[str, Any]:
    """Return the record of an environment that exists: where it is, and its packages as far as this installation can
    look at them."""
    found = environment.existing
    if found is None:
        return {"prefix": None, "kind": None}
    version = "{}.{}".format(*found.version) if found.version else None
    value: dict[str, Any] = {"prefix": found.prefix, "kind": found.kind, "python": version}
    inspector = find_provider("environments")
    return {**value, "pip": inspector.installed_packages(found.prefix)} if inspector else value


def environment_summary(paths: RunPaths) -> dict[str, Any]:
    """What a run's record says of its environment; the whole is in environment.json."""
    found = read_json(paths.environment) or {}
    packages = {each["name"]: each["version"] for each in [*found.get("conda", ()), *found.get("pip", ())]}
    keys = ("name", "prefix", "kind", "fingerprint", "digest", "python")
    return {**{key: found[key] for key in keys if found.get(key) is not None}, "packages": packages}
