"""Environments built before a run, and written down with it."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Collection
from typing import Any

from worldsize.common.atomic_files import read_json, write_json
from worldsize.environment.existing import explain_missing_python, inspect_prefix
from worldsize.environment.recipe import Recipe
from worldsize.errors import BuildError, WorldsizeError
from worldsize.plan.run_paths import RunPaths
from worldsize.service.environments.lookup import Environment, mark_used
from worldsize.service.request import Progress, SubmissionRequest
from worldsize.trust.secrets import mask_values

_USER_KEYS = frozenset(("spec", "options", "steps"))
"""Of a description, what a user wrote."""


def ensure_ready(
    environment: Environment, progress: Progress, start: Callable[[SubmissionRequest, Progress], RunPaths]
) -> bool:
    """Builds the environment unless it is there; whether it was we who built it. Whoever asks for it at the same time
    waits. `start` submits a run: one whose steps are executed on its compute is built by one. BuildError, StorageError,
    ConfigError."""
    if environment.recipe is None or environment.prefix is None:
        return False
    if environment.ready:
        _check_python(environment.prefix)
        mark_used(environment)
        return False
    return _build(environment, environment.recipe, environment.prefix, progress, start)


def _check_python(prefix: str) -> None:
    """BuildError where the interpreter that it was made of was removed since: `python` would be the next on PATH. It is
    not built anew at once, since nodes may still have that interpreter."""
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

    from worldsize.wings.environments.build_job import end_abandoned_run, make_remote_steps
    from worldsize.wings.environments.pipeline import make_environment, run_steps_locally
    from worldsize.wings.environments.workspace.builder import ensure_built

    name = os.path.basename(prefix)
    began = time.monotonic()
    progress.notice(f"building the environment {name}")
    config, compute = environment.config, environment.compute
    elsewhere = recipe.spec.build_on == "compute"
    steps = make_remote_steps(config, compute, recipe.environ, start) if elsewhere else run_steps_locally
    work = partial(make_environment, recipe=recipe, steps=steps)
    abandoned = partial(end_abandoned_run, config, recipe.environ)
    try:
        ours = ensure_built(prefix, work, lambda what: progress.show_activity(f"{name}: {what}"), abandoned)
    except WorldsizeError as error:
        error.where = error.where or f"environment {name}"
        raise
    progress.notice("{} {} in {:.0f} s".format(name, "is built" if ours else "is there", time.monotonic() - began))
    return ours


def record_environment(environment: Environment, paths: RunPaths, secrets: Collection[str]) -> None:
    """Writes down what the run runs in: of a built environment its lock, else what can be seen of it; without the texts
    `secrets`. BuildError where it was removed meanwhile; OSError."""
    found = environment.existing
    if environment.recipe is not None:
        description = environment.description()
        if description is None:
            raise BuildError("it was removed meanwhile", environment.prefix, "start the run again: it is built anew")
        shown = {key: mask_values(description.get(key), secrets) for key in _USER_KEYS.intersection(description)}
        rows = [{**row, "url": mask_values(row.get("url"), secrets)} for row in description.get("pip", ())]
        write_json(paths.environment, {**description, **shown, "pip": rows})
        return
    value: dict[str, Any] = {"prefix": found.prefix if found else None, "kind": found.kind if found else None}
    if found:
        from worldsize.wings.environments.inspect.installed import installed_distributions

        value["python"] = "{}.{}".format(*found.version) if found.version else None
        value["pip"] = [{"name": each.name, "version": each.version} for each in installed_distributions(found.prefix)]
    write_json(paths.environment, value)


def environment_summary(paths: RunPaths) -> dict[str, Any]:
    """What a run's record says of its environment; the whole is in environment.json."""
    found = read_json(paths.environment) or {}
    packages = {each["name"]: each["version"] for each in [*found.get("conda", ()), *found.get("pip", ())]}
    keys = ("name", "prefix", "kind", "fingerprint", "digest", "python")
    return {**{key: found[key] for key in keys if found.get(key) is not None}, "packages": packages}
