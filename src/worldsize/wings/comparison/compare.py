"""The differences between two runs, read only from their directories."""

from __future__ import annotations

import os
from collections.abc import Mapping

from worldsize.common.atomic_files import printable_text
from worldsize.common.json_values import read_record, require_version
from worldsize.common.named_tuple import Any, cast
from worldsize.errors import NotFound
from worldsize.jobspec.dump import job_tree
from worldsize.jobspec.reading.job_file import load_job
from worldsize.plan.run_paths import RunPaths
from worldsize.service.providers import find_provider
from worldsize.snapshot.run_record import RECORD_VERSION
from worldsize.snapshot.snapshot import MANIFEST_VERSION
from worldsize.trust.secrets import mask_tree

_SHELL_NOISE = ("SHLVL", "_", "PWD", "OLDPWD")
_RECORD_KEYS = ("worldsize", "python", "platform", "host", "git", "env")


def compare(old: RunPaths, new: RunPaths) -> dict[str, Any]:
    """Return the differences between two runs: {"job": {key: [old, new]}, "environment": {…}, "nodes": {…}, "code":
    {"added", "removed", "changed"}}.

    A secret that differs is reported, masked on both sides. Nodes are compared if the agents of both runs have recorded
    their hardware and software. A run without a snapshot counts as one without files.
    """
    return {
        "job": _changes(_job(old), _job(new)),
        "environment": _changes(_environment(old), _environment(new)),
        "nodes": _changes(*_nodes(old, new)),
        "code": diff_trees(_manifest(old), _manifest(new)),
    }


def _changes(old: Mapping[str, Any], new: Mapping[str, Any]) -> dict[str, list[Any]]:
    shown_old, shown_new = _flatten(mask_tree(old)), _flatten(mask_tree(new))
    old, new = _flatten(old), _flatten(new)
    keys = [key for key in sorted(old.keys() | new.keys()) if old.get(key) != new.get(key)]
    return {key: [shown_old.get(key), shown_new.get(key)] for key in keys}


def _flatten(value: Any, prefix: str = "") -> dict[str, Any]:
    if not isinstance(value, Mapping):
        return {prefix: value}
    flat: dict[str, Any] = {}
    for key, item in value.items():
        flat.update(_flatten(item, f"{prefix}.{key}" if prefix else str(key)))
    return flat


def _job(paths: RunPaths) -> dict[str, Any]:
    tree = job_tree(load_job(paths.job).job)
    tree.pop("code", None)
    return tree


def _environment(paths: RunPaths) -> dict[str, Any]:
    record = read_record(paths.record, _check_record) or {}
    kept = {name: value for name, value in record.get("environment", {}).items() if name not in _SHELL_NOISE}
    return {"variable": kept, **{key: record.get(key) for key in _RECORD_KEYS}}


def _nodes(old: RunPaths, new: RunPaths) -> tuple[dict[str, str], dict[str, str]]:
    """Return two mappings, one for each run, of the hardware and software of the run's nodes. Both are empty if one is
    not known or is incomplete, because missing values would be reported as differences."""
    facts = find_provider("facts")
    found = [facts.recorded_facts(paths) for paths in (old, new)] if facts else [(), ()]
    if facts is None or not all(nodes and all(node.complete for node in nodes) for nodes in found):
        return {}, {}
    before, after = ({**dict(facts.hardware_table(each)), **dict(facts.software_table(each))} for each in found)
    return before, after


def _check_record(value: Any) -> Mapping[str, Any]:
    require_version(value, RECORD_VERSION, "record")
    if not isinstance(value.get("environment", {}), Mapping):
        raise ValueError("its environment is not a mapping")
    return cast("Mapping[str, Any]", value)


def diff_trees(old: Mapping[str, Any], new: Mapping[str, Any]) -> dict[str, list[str]]:
    """Return the sorted paths that differ between two manifests of code snapshots, in the lists `added`, `removed` and
    `changed`. `changed` are those that differ in content, kind or target."""
    before, after = old["files"], new["files"]
    return {
        "added": sorted(after.keys() - before.keys()),
        "removed": sorted(before.keys() - after.keys()),
        "changed": sorted(path for path in before.keys() & after.keys() if list(before[path]) != list(after[path])),
    }


def _manifest(paths: RunPaths) -> Mapping[str, Any]:
    """Return the manifest of a run's code snapshot; one without files if there is no snapshot. Raise DamagedRun,
    NewerFormat or OSError. Raise NotFound if the manifest is a broken link."""
    manifest = read_record(paths.manifest, _check_manifest)
    if manifest is not None:
        return manifest
    if os.path.lexists(paths.manifest):
        where = printable_text(paths.manifest)
        raise NotFound("no manifest of the code", where, "only runs with a snapshot can be compared")
    return {"files": {}}


def _check_manifest(value: Any) -> dict[str, Any]:
    require_version(value, MANIFEST_VERSION, "manifest of the code")
    if not isinstance(value["files"], dict) or not all(isinstance(each, list) for each in value["files"].values()):
        raise ValueError("it is not a manifest of the code")
    return dict(value)
