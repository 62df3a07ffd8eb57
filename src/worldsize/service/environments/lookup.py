"""The environment that a job runs in: found if it exists, planned if it must still be built, and recorded with the
run."""

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
    """The parts of an environment that must be built, and its purpose.

    spec         the complete spec
    fingerprint  the environment's own fingerprint
    base         the interpreter, or version, of a virtual environment; None if conda provides it
    environ      the environment variables of the caller
    cache        a directory for files that are kept for later builds
    existing     the environment on which it is built
    channels, alias, virtual   for conda: addresses or names; their location; what the nodes have (empty: as here)
    lock         a lock file's content: exactly these packages
    secrets      names of variables that hold secrets, regardless of their names
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
    """An environment, regardless of whether it exists yet.

    spec      its parts
    existing  the environment to use; for one that is not built yet, the future one
    recipe    instructions to build it; None if it exists independently of worldsize
    ready     whether it can be used now
    notices   messages for the user
    archive   a packed environment, which has no other form here
    config, compute   the configuration and the compute for which a built one was looked up
    secrets   names of variables that hold a secret, in addition to those that look like it
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
        """The container image that ranks run in; None if the spec contains another environment."""
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
    """Return the Environment that `wanted`, a job's `environment:`, means on the compute `compute`, regardless of
    whether it is built yet. This builds nothing, and reads little.

    `name` is the name that it gets. `secrets` are the variables that the job declares as secrets. None for the current
    Python without notices. Raise UsageError or NotFound if `wanted` is wrong.
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
    """Return the notice, as text, that the container image which the environment `spec` names is not used, since the
    spec contains another environment too; none otherwise."""
    if spec.image is None:
        return ()
    if spec.needs_build or spec.existing_python:
        return (f"the container image {spec.image} is not used: what is in the environment is built without it",)
    return ()


def record_environment(environment: Environment, paths: RunPaths, secrets: Collection[str]) -> None:
    """Write the record of the run's environment to environment.json: the lock of an environment that worldsize built,
    else what can be found out about it. The texts `secrets` are masked in a lock. Raise BuildError if the environment
    was removed meanwhile. Raise OSError."""
    built = environment.recipe is not None
    value = provider("environments").build_record(environment, secrets) if built else _record_of_existing(environment)
    write_json(paths.environment, value)


def _record_of_existing(environment: Environment) -> dict[str, Any]:
    """Return the record, a dictionary for environment.json, of an environment that worldsize did not build: its
    directory, kind and Python version, and its packages if this installation can list them."""
    found = environment.existing
    if found is None:
        return {"prefix": None, "kind": None}
    version = "{}.{}".format(*found.version) if found.version else None
    value: dict[str, Any] = {"prefix": found.prefix, "kind": found.kind, "python": version}
    inspector = find_provider("environments")
    return {**value, "pip": inspector.installed_packages(found.prefix)} if inspector else value


def environment_summary(paths: RunPaths) -> dict[str, Any]:
    """Return the summary of the environment of the run in `paths` for the run's record: its name, place and the
    versions of its packages. The full data are in environment.json."""
    found = read_json(paths.environment) or {}
    packages = {each["name"]: each["version"] for each in [*found.get("conda", ()), *found.get("pip", ())]}
    keys = ("name", "prefix", "kind", "fingerprint", "digest", "python")
    return {**{key: found[key] for key in keys if found.get(key) is not None}, "packages": packages}
