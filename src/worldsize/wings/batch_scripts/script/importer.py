"""The keys of a job file for a Slurm batch script: the options that keys express exactly."""

from __future__ import annotations

import os
from typing import Any, NamedTuple

from worldsize.jobspec.distribution import processes_per_instance
from worldsize.jobspec.job import Job
from worldsize.jobspec.paths import is_remote
from worldsize.wings.batch_scripts.script.job import job_of_script, script_job_name
from worldsize.wings.batch_scripts.script.parse import BatchScript, SbatchOption
from worldsize.wings.batch_scripts.script.size import (
    AllocationRequest,
    SbatchArray,
    parse_allocation_request,
    parse_sbatch_array,
)
from worldsize.wings.batch_scripts.script.slurm_keys import equivalent_keys

_IGNORED_OPTIONS = frozenset(("verbose", "quiet", "parsable"))


class ImportedJob(NamedTuple):
    """The keys of the job file (`tree`), and the options that no key expresses (`left`), in the order of the script."""

    tree: dict[str, Any]
    left: tuple[SbatchOption, ...]


def import_script(script: BatchScript, source: str, path: str | None) -> ImportedJob:
    """Return the keys of a job file that does what the batch script does when it is submitted in the current directory,
    and the options that no key expresses. `path` is the script's path relative to that directory; None: the job file
    contains the script's text. Raise JobError, with its line, for an option whose value is invalid."""
    tree: dict[str, Any] = {
        "type": "command",
        "batch_script": _explicit_path(path) if path else script.text,
        "code": _explicit_path(os.path.normpath(script.value("chdir") or ".")),
    }
    name = script.value("job-name") or (script_job_name(path) if path else None)
    if name:
        tree["display_name"] = name
    own = job_of_script(script, source)
    said = {"job-name", "chdir"} | _add_size(tree, script, parse_allocation_request(script, source), own)
    said |= _add_array(tree, parse_sbatch_array(script, source), own)
    slurm = equivalent_keys(script)
    if slurm:
        tree["slurm"] = slurm
        said |= slurm.keys() | {"no-requeue"}
    counting = [option for option in script.options if script.option(option.name) is option]
    return ImportedJob(tree, tuple(each for each in counting if each.name not in said | _IGNORED_OPTIONS))


def _explicit_path(path: str) -> str:
    """Return the path in a form that a job file cannot read as anything else: not as the text of a script, an address,
    or a user's home directory."""
    plain = path[:1].isalnum() and not is_remote(path) and not path.startswith("file:")
    return path if path == "." or os.path.isabs(path) or plain else os.path.join(".", path)


def _add_size(tree: dict[str, Any], script: BatchScript, size: AllocationRequest, own: Job) -> set[str]:
    """Add to `tree`, the keys of a job file, the numbers of nodes and of tasks per node that the batch script gives as
    plain numbers and that apply unchanged. Return the names of the #SBATCH options that are replaced."""
    said = set()
    if script.value("nodes") == str(size.nodes):
        tree["resources"] = {"instance_count": size.nodes}
        said.add("nodes")
    per_node = processes_per_instance(own.distribution)
    exact = {script.value("ntasks-per-node")} == {str(tasks) for tasks in (*size.tasks, per_node)}
    if exact and not script.has_option("ntasks"):
        tree["distribution"] = {"type": "none", "process_count_per_instance": per_node}
        said.add("ntasks-per-node")
    return said


def _add_array(tree: dict[str, Any], array: SbatchArray | None, own: Job) -> set[str]:
    """Add to `tree`, the keys of a job file, the script's job array if its indices are 0, 1, 2 …, as those of
    worldsize's arrays are. Return the names of the #SBATCH options that are replaced."""
    if array is None or array.indices != tuple(range(len(array.indices))):
        return set()
    tree["count"] = own.count
    if own.at_once:
        tree["at_once"] = own.at_once
    return {"array"}
