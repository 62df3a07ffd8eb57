"""Search for the spec of an environment by the name that a job or a command line gives it."""

from __future__ import annotations

import os
from collections.abc import Mapping
from fnmatch import fnmatchcase

from worldsize.common.named_tuple import Any, NamedTuple
from worldsize.errors import UsageError
from worldsize.jobspec.config.config import Config
from worldsize.jobspec.environment import FILE_ENDINGS, EnvironmentSpec, is_azure_name, is_path, spec_of
from worldsize.registry import load_module

_DEEPEST = 8


class ResolvedEnvironment(NamedTuple):
    """The environment that a name resolves to. `spec` is complete; None if the current Python is used instead, and
    `notice` then states the reason."""

    spec: EnvironmentSpec | None
    notice: str | None = None


def resolve_environment(wanted: str | Mapping[str, Any] | None, config: Config, depth: int = 0) -> ResolvedEnvironment:
    """Return the environment that `wanted`, a job's `environment:` or a word on the command line, means with this
    configuration, as a ResolvedEnvironment. Raise UsageError or NotFound if it is wrong.

    These are tried in order: a name that only Azure has, or an image that is the whole spec, by `environment_map`; a
    named environment of the configuration; a path; the name of an environment that exists. `depth` is the number of
    names that were followed so far.
    """
    if wanted is None:
        return ResolvedEnvironment(None)
    if depth > _DEEPEST:
        hint = "map it to a file, or to [environment.NAME]"
        raise UsageError(f"{wanted} is mapped to itself", "environment_map", hint)
    if not isinstance(wanted, str):
        return _resolve_contents(spec_of(wanted), config, depth, bool(wanted))
    if is_azure_name(wanted):
        return _resolve_azure_name(wanted, config, depth)
    if wanted in config.environments:
        found = resolve_environment(config.environments[wanted], config, depth + 1)
        spec = found.spec
        return found._replace(spec=spec._replace(name=spec.name or wanted)) if spec else found
    if is_path(wanted):
        path = wanted.removeprefix("file:")
        return _resolve_contents(_spec_of_path(os.path.abspath(os.path.expanduser(path))), config, depth)
    return ResolvedEnvironment(EnvironmentSpec(python=wanted))


def _spec_of_path(path: str) -> EnvironmentSpec:
    if os.path.isdir(path) or (os.path.isfile(path) and not path.endswith(FILE_ENDINGS)):
        return EnvironmentSpec(python=path)
    return EnvironmentSpec(file=path)


def _with_file_contents(spec: EnvironmentSpec) -> EnvironmentSpec:
    """Return the environment spec with the contents of the file that it names (requirements, conda environment, …)
    added; unchanged if it names none. Raise ConfigError if this installation builds no environments."""
    if spec.file is None:
        return spec
    sources = load_module("wings.environments.sources", "building environments")
    found: EnvironmentSpec = sources.with_file_contents(spec)
    return found


def _resolve_contents(
    spec: EnvironmentSpec, config: Config, depth: int, says_something: bool = True
) -> ResolvedEnvironment:
    """Return the environment that `spec`, read from a mapping in a job or from a file, describes. The same text means
    the same in both. If the spec describes nothing that can be built, the current Python is used, with a notice if
    `says_something`."""
    spec = _with_file_contents(spec)
    if spec == EnvironmentSpec(name=spec.name):
        what = "contains nothing that can be built here: the command runs in the current Python"
        return ResolvedEnvironment(None, what if says_something else None)
    if spec.image and config.environment_map and spec == EnvironmentSpec(name=spec.name, image=spec.image):
        value = _mapped_name(spec.image, config, image=True)
        if value is not None:
            return resolve_environment(value, config, depth + 1)
    return ResolvedEnvironment(spec)


def _resolve_azure_name(name: str, config: Config, depth: int) -> ResolvedEnvironment:
    value = _mapped_name(name, config) if config.environment_map else None
    if value is not None:
        return resolve_environment(value, config, depth + 1)
    what = "%s is Azure's: the command runs in the current Python ([environment_map] can map it here)"
    return ResolvedEnvironment(None, what % name)


def _mapped_name(name: str, config: Config, image: bool = False) -> str | None:
    """Return the value that `[environment_map]` of the configuration has for `name`, an environment's name in Azure or
    (`image`) a container image; None if no pattern in the table matches."""
    wing = load_module("wings.azure.environment_names", "[environment_map]")
    spellings = wing.image_spellings(name) if image else wing.name_spellings(name)
    for pattern, value in config.environment_map.items():
        if any(fnmatchcase(each.lower(), pattern.lower()) for each in spellings):
            return value
    return None
