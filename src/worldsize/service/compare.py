"""What differs between two runs, read from their directories alone."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from worldsize.errors import NotFound
from worldsize.plan.files import read_json
from worldsize.plan.paths import RunPaths

_SHELL_NOISE = ("SHLVL", "_", "PWD", "OLDPWD")
_RECORD_KEYS = ("worldsize", "python", "platform", "host", "git")


def compare(old: RunPaths, new: RunPaths) -> dict[str, Any]:
    """{"job": {key: [old, new]}, "environment": {…}, "code": {"added", "removed", "changed"} | None}"""
    return {
        "job": _changes(_job(old), _job(new)),
        "environment": _changes(_environment(old), _environment(new)),
        "code": _code(old, new),
    }


def _changes(old: Mapping[str, Any], new: Mapping[str, Any]) -> dict[str, list[Any]]:
    keys = sorted(old.keys() | new.keys())
    return {key: [old.get(key), new.get(key)] for key in keys if old.get(key) != new.get(key)}


def _flat(value: Any, prefix: str = "") -> dict[str, Any]:
    if not isinstance(value, Mapping):
        return {prefix: value}
    flat: dict[str, Any] = {}
    for key, item in value.items():
        flat.update(_flat(item, "%s.%s" % (prefix, key) if prefix else str(key)))
    return flat


def _job(paths: RunPaths) -> dict[str, Any]:
    from worldsize.spec.dump import job_tree
    from worldsize.spec.jobfile import load_job

    flat = _flat(job_tree(load_job(paths.job).job))
    flat.pop("code", None)
    return flat


def _environment(paths: RunPaths) -> dict[str, Any]:
    record = read_json(paths.record) or {}
    variables = record.get("environment", {})
    flat = _flat({name: value for name, value in variables.items() if name not in _SHELL_NOISE}, "variable")
    for key in _RECORD_KEYS:
        flat.update(_flat(record.get(key), key))
    return flat


def _code(old: RunPaths, new: RunPaths) -> dict[str, list[str]] | None:
    from worldsize.environment.manifest import diff_trees, read_manifest

    try:
        trees = diff_trees(read_manifest(old.manifest), read_manifest(new.manifest))
    except NotFound:
        return None
    return {"added": list(trees.added), "removed": list(trees.removed), "changed": list(trees.changed)}
