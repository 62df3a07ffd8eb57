"""The job file of a batch script: it names the script, and says with keys of its own what they say exactly. Pure."""

from __future__ import annotations

import os
from typing import Any, NamedTuple

from worldsize.jobspec.batch_script.job import job_of_script, name_of
from worldsize.jobspec.batch_script.parse import BatchScript, Option
from worldsize.jobspec.batch_script.size import Array, Asked, array_of, asked
from worldsize.jobspec.batch_script.slurm_keys import same_keys
from worldsize.jobspec.distribution import processes_per_instance
from worldsize.jobspec.job import Job
from worldsize.jobspec.paths import is_remote

_NOTHING_TO_SAY = frozenset(("verbose", "quiet", "parsable"))


class Imported(NamedTuple):
    """The keys of the job file, and the options that none of them says, in the order of the script."""

    tree: dict[str, Any]
    left: tuple[Option, ...]


def import_script(script: BatchScript, source: str, path: str | None) -> Imported:
    """The job that does what the script does when it is submitted in the current directory. `path`: the script's,
    relative to that; None: its text stands in the job file. Raises JobError with the line of a value that is none."""
    tree: dict[str, Any] = {
        "type": "command",
        "batch_script": _written(path) if path else script.text,
        "code": _written(os.path.normpath(script.value("chdir") or ".")),
    }
    name = script.value("job-name") or (name_of(path) if path else None)
    if name:
        tree["display_name"] = name
    own = job_of_script(script, source)
    said = {"job-name", "chdir"} | _add_size(tree, script, asked(script, source), own)
    said |= _add_array(tree, array_of(script, source), own)
    slurm = same_keys(script)
    if slurm:
        tree["slurm"] = slurm
        said |= slurm.keys() | {"no-requeue"}
    counting = [option for option in script.options if script.option(option.name) is option]
    return Imported(tree, tuple(each for each in counting if each.name not in said | _NOTHING_TO_SAY))


def _written(path: str) -> str:
    """A path that a job file takes for nothing else: for no script, no address, and no directory of a user's."""
    plain = path[:1].isalnum() and not is_remote(path) and not path.startswith("file:")
    return path if path == "." or os.path.isabs(path) or plain else os.path.join(".", path)


def _add_size(tree: dict[str, Any], script: BatchScript, size: Asked, own: Job) -> set[str]:
    """Only what the script says as a plain number that counts as it stands; the names of those options."""
    said = set()
    if script.value("nodes") == str(size.nodes):
        tree["resources"] = {"instance_count": size.nodes}
        said.add("nodes")
    per_node = processes_per_instance(own.distribution)
    exact = {script.value("ntasks-per-node")} == {str(tasks) for tasks in (*size.tasks, per_node)}
    if exact and not script.says("ntasks"):
        tree["distribution"] = {"type": "none", "process_count_per_instance": per_node}
        said.add("ntasks-per-node")
    return said


def _add_array(tree: dict[str, Any], array: Array | None, own: Job) -> set[str]:
    """An array that counts from 0, as runs are counted."""
    if array is None or array.indices != tuple(range(len(array.indices))):
        return set()
    tree["count"] = own.count
    if own.at_once:
        tree["at_once"] = own.at_once
    return {"array"}
