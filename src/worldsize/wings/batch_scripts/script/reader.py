"""Batch scripts as the core asks for them (`ScriptReader` of `jobspec/batch_script.py`): one as a job, and one as
`batch_script:` of a job file, whose other keys are laid over what it asks for."""

from __future__ import annotations

import os
from typing import Any

from worldsize.jobspec.distribution import processes_per_instance
from worldsize.jobspec.job import Job, LoadedJob
from worldsize.jobspec.paths import absolute_path, is_remote, printable_path
from worldsize.jobspec.reading.problems import Problems
from worldsize.jobspec.reading.tree import YamlNode
from worldsize.wings.batch_scripts.script.job import (
    allocation_request_of,
    effective_script,
    job_of_script,
    read_script,
    script_job_name,
    script_text,
)
from worldsize.wings.batch_scripts.script.parse import BatchScript
from worldsize.wings.batch_scripts.script.slurm_keys import own_options, with_slurm_keys

_KEY = "batch_script"
_LINES = {
    "resources.instance_count": ("nodes", "ntasks", "nodelist"),
    "distribution.process_count_per_instance": ("ntasks-per-node", "ntasks", "ntasks-per-gpu"),
    "limits.timeout": ("time",),
    "display_name": ("job-name",),
    "count": ("array",),
    "code": ("chdir",),
    "environment_variables": ("export",),
}
"""Where the value of a job's key was said, for messages."""


def load_script(path: str, cwd: str, code: str | None = None) -> LoadedJob:
    """The job that the script in the file `path` asks for when it is submitted in the directory `cwd`.

    `code`: another directory to run in. Raises JobError with file and line for what sbatch would refuse.
    """
    source = printable_path(path)
    script, warnings = read_script(path)
    code = code or os.path.normpath(os.path.join(cwd, script.value("chdir") or ""))
    name = script.value("job-name") or script_job_name(path)
    job = job_of_script(script, source)._replace(code=code, display_name=name, source=source)
    return LoadedJob(job, warnings, _lines(script))


def with_script_values(nodes: dict[str, YamlNode], values: dict[str, Any], report: Problems) -> dict[str, Any]:
    """The values of a job's keys with those that only its script says. Raises JobError, with the script's own place,
    for what sbatch would refuse; whatever else is wrong is in the report."""
    for key in ("modules", "setup"):
        if values.get(key):
            report.add(nodes[key], key, "has no effect beside batch_script", "say it in the script")
    found = _read_script_text(nodes[_KEY], values[_KEY], report)
    if found is None or report.problems:
        return values
    text, path, place = found
    script, warnings = read_script(place, text)
    report.warnings += warnings
    script = with_slurm_keys(script, values.get("slurm", {}))
    own = job_of_script(script, place)
    name = script.value("job-name") or (script_job_name(path) if path else None)
    directory = script.value("chdir")
    code = os.path.normpath(os.path.join(report.base, directory)) if directory else None
    said: dict[str, Any] = {"code": code, "display_name": name}
    if not nodes.keys() & {"matrix", "count"}:
        said.update(count=own.count, at_once=own.at_once)
    return {
        **{key: value for key, value in said.items() if key not in nodes},
        **values,
        _KEY: text,
        "batch_source": place,
        "environment_variables": {**own.environment_variables, **values.get("environment_variables", {})},
        "resources": {"instance_count": own.resources.instance_count, **values.get("resources", {})},
        "distribution": _distribution(nodes, values, own),
    }


def _distribution(nodes: dict[str, YamlNode], values: dict[str, Any], own: Job) -> Any:
    """The job's own kind, with the script's number of processes unless the job says that."""
    kind = values.get("distribution")
    if kind is None:
        return own.distribution
    said = nodes["distribution"].value.get("process_count_per_instance")
    if processes_per_instance(kind) is None or (said is not None and said.value is not None):
        return kind
    return kind._replace(process_count_per_instance=processes_per_instance(own.distribution))


def _read_script_text(node: YamlNode, value: str, report: Problems) -> tuple[str, str, str] | None:
    """The script, its file (none for a text), and the name of the place where its lines are counted."""
    if value.startswith("#!"):
        return value, "", f"{node.origin}: {_KEY}"
    if "\n" in value.strip():
        what = "is not a batch script: its first line must name the interpreter"
        report.add(node, _KEY, what, "begin it with #!/bin/bash")
        return None
    if is_remote(value):
        report.add(node, _KEY, "is an address, not a file", "name a file on this machine")
        return None
    path = absolute_path(value, report.base)
    try:
        text = script_text(path)
    except OSError as error:
        what = f"cannot read the batch script {printable_path(path)}: {error.strerror}"
        report.add(node, _KEY, what, "its path starts at the job file's directory; a text begins with #!")
        return None
    return text, path, os.path.join(os.path.dirname(node.origin), printable_path(value))


def sbatch_options(job: Job) -> list[tuple[str, str | None]]:
    return own_options(effective_script(job))


def gpu_count(job: Job) -> int:
    return allocation_request_of(job).gpus or 0


def _lines(script: BatchScript) -> dict[str, int]:
    lines = {key: script.line(*names) for key, names in _LINES.items()}
    return {key: line for key, line in lines.items() if line is not None}
