"""What a run's directory says of its environment."""

from __future__ import annotations

from collections.abc import Collection
from typing import Any

from worldsize.common.atomic_files import read_json, write_json
from worldsize.plan.run_paths import RunPaths
from worldsize.service.environments.lookup import Environment
from worldsize.service.providers import find_provider, provider


def record_environment(environment: Environment, paths: RunPaths, secrets: Collection[str]) -> None:
    """Writes down what the run runs in: of a built environment its lock, else what can be seen of it; without the texts
    `secrets`. BuildError where it was removed meanwhile; OSError."""
    built = environment.recipe is not None
    value = provider("environments").build_record(environment, secrets) if built else _record_of_existing(environment)
    write_json(paths.environment, value)


def _record_of_existing(environment: Environment) -> dict[str, Any]:
    """Its packages as far as this installation can look at them."""
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
