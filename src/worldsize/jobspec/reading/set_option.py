"""The changes that `--set key=value` makes to a job."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from worldsize.errors import JobError
from worldsize.jobspec.dump import job_tree
from worldsize.jobspec.job import Job
from worldsize.jobspec.keys.job import JOB
from worldsize.jobspec.paths import current_directory
from worldsize.jobspec.reading.job import read_job
from worldsize.jobspec.reading.nearest import did_you_mean
from worldsize.jobspec.reading.problems import Problems
from worldsize.jobspec.reading.tree import MAX_DEPTH, YamlNode, to_node

OPEN_MAPS = ("text_map", "labels")
"""Kinds of keys whose values are mappings of free names."""
_DECLARED = ("inputs", "outputs")


def apply_overrides(job: Job, settings: Iterable[str]) -> Job:
    """Return `job` with each `--set` option in `settings`, a text `key=value`, applied in their order. The result is
    read again as a whole.

    A key is a YAML path, such as inputs.lr or environment_variables.X. A value is read as a YAML scalar, or as a list
    or mapping in brackets; where text is expected, it is used as written. Relative paths start at the current
    directory.

    Raise JobError that names the setting, and for an unknown key the nearest one. The place in its message contains no
    values, since they may be secret.
    """
    node = to_node(job_tree(job), job.source)
    for setting in settings:
        node = _with_setting(node, setting)
    return _read_changed(job, node, current_directory("--set"))


def with_values(job: Job, values: Mapping[str, YamlNode], base: str) -> Job:
    """Return `job` with `values`, a mapping of YAML paths, as `--set` takes them, to values with their places. The
    result is read again as a whole. Relative paths start at the directory `base`. Raise JobError that names the place
    of a value which the job cannot have."""
    node = to_node(job_tree(job), job.source)
    for name, value in values.items():
        node = _with_leaf(node, split_path(name), value, value.where)
    return _read_changed(job, node, base)


def _read_changed(job: Job, node: YamlNode, base: str) -> Job:
    """Return the Job of the tree `node`, which was made from `job`."""
    report = Problems(base)
    changed = read_job(node, report, job.source)
    report.check()
    same_script = changed.batch_script == job.batch_script
    return changed._replace(batch_source=job.batch_source) if same_script else changed


def override_origins(settings: Iterable[str]) -> dict[str, str]:
    """Return a mapping of each key that the `--set` options `settings` ("key=value") set, a YAML path, to its place for
    messages, "--set KEY"."""
    names = [setting.partition("=")[0].strip() for setting in settings]
    return {name: f"--set {name}" for name in names}


def _with_setting(root: YamlNode, setting: str) -> YamlNode:
    """Return a copy of `root`, the tree of a job, in which the `--set` option `setting` ("key=value") is applied. Raise
    JobError if the text is no setting, or if a job has no such key."""
    from worldsize.jobspec.reading.yaml import read_setting  # the site's defaults need no YAML library

    name, equals, text = setting.partition("=")
    name = name.strip()
    if not equals or not name:
        raise JobError(f"{name!r:.60} is not a setting", "--set", "write key=value, such as inputs.lr=0.1")
    where = f"--set {name[:100]}"
    path = _split_key(name, where)
    _check_declared(root, path, where)
    if path[0] == "command" and "argv" in root.value:
        raise JobError("the job has exact words (argv), not a shell command", where, "set argv=[…] instead")
    return _with_leaf(root, path, read_setting(text, where), where)


def split_path(name: str) -> list[str]:
    """Split the YAML path `name` of a job's key into its steps. Below a mapping of free names, such as
    environment_variables, the rest is one name, including its dots."""
    first, _, rest = name.partition(".")
    return [first, rest] if rest and first in JOB and JOB[first].kind in OPEN_MAPS else name.split(".")


def _split_key(name: str, where: str) -> list[str]:
    """Split the key `name` of a `--set` option into the steps of a YAML path. Raise JobError, at `where`, if the first
    step is no key of a job, or if the path is malformed."""
    path = split_path(name)
    if "" in path or len(path) > MAX_DEPTH:
        raise JobError("not a key", where, "write key=value, such as inputs.lr=0.1")
    if path[0] not in JOB:
        raise JobError(f"{path[0]!r:.60} is not a key of a job", where, did_you_mean(path[0], JOB))
    return path


def _check_declared(root: YamlNode, path: list[str], where: str) -> None:
    """Raise JobError if the `--set` key `path` names an input or output that the job `root` does not have, since a new
    one that the command does not use would be a mistake. Other keys are not checked."""
    if path[0] not in _DECLARED or len(path) < 2:
        return
    names = _names(root, path[0]) + (_names(root, "input_types") if path[0] == "inputs" else [])
    if path[1] not in names:
        what = f"the job has no {path[0][:-1]} {path[1]!r:.60}"
        raise JobError(what, where, did_you_mean(path[1], dict.fromkeys(names), "it has"))


def _names(root: YamlNode, section: str) -> list[str]:
    node = root.value.get(section)
    return list(node.value) if node and isinstance(node.value, dict) else []


def _with_leaf(node: YamlNode, path: list[str], leaf: YamlNode, where: str) -> YamlNode:
    children: dict[str, YamlNode] = node.value if isinstance(node.value, dict) else {}
    if node.value is not None and not isinstance(node.value, dict):
        raise JobError(f"{where.removeprefix('--set ').rpartition('.')[0]} is {node.kind}, which has no keys", where)
    head, rest = path[0], path[1:]
    child = _with_leaf(children.get(head, leaf._replace(value=None)), rest, leaf, where) if rest else leaf
    return node._replace(value={**children, head: child})
