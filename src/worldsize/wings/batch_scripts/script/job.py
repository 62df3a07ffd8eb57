"""A batch script as a job: the requests of its #SBATCH lines, as keys of any job, and a job's keys as #SBATCH options.

The core calls it (`ScriptReader` of `jobspec/batch_script.py`) for a script that is the job, and for a script that is
the `batch_script:` of a job file. In the second case, the other keys of the job file override the script's requests.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import Any

from worldsize.common.atomic_files import read_file
from worldsize.errors import JobError
from worldsize.jobspec.distribution import processes_per_instance
from worldsize.jobspec.distributions.plain import PlainDistribution
from worldsize.jobspec.job import MAX_RANKS, Job, LoadedJob, Resources
from worldsize.jobspec.paths import absolute_path, is_remote, printable_path
from worldsize.jobspec.reading.problems import Problems
from worldsize.jobspec.reading.tree import YamlNode
from worldsize.plan.array import MAX_ELEMENTS
from worldsize.wings.batch_scripts.script.check import max_tasks_per_node, script_launches
from worldsize.wings.batch_scripts.script.parse import MAX_BYTES, BatchScript, Remark, parse_script
from worldsize.wings.batch_scripts.script.size import AllocationRequest, parse_allocation_request, parse_sbatch_array
from worldsize.wings.batch_scripts.script.slurm_keys import (
    TOTAL_TASK_OPTIONS,
    own_options,
    with_nodes,
    with_slurm_keys,
    with_tasks,
)

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
"""The options that give the value of a job's key. Messages find the key's line by them."""


def load_script(path: str, cwd: str, code: str | None = None) -> LoadedJob:
    """Return the job that the batch script in the file `path` requests when it is submitted in the directory `cwd`,
    with warnings and the line of each key.

    `code` is another directory to run in. Raise JobError, with file and line, for a script that sbatch would refuse.
    """
    source = printable_path(path)
    script, warnings = read_script(path)
    code = code or os.path.normpath(os.path.join(cwd, script.value("chdir") or ""))
    name = script.value("job-name") or script_job_name(path)
    job = job_of_script(script, source)._replace(code=code, display_name=name, source=source)
    return LoadedJob(job, warnings, _lines(script))


def script_job_name(path: str) -> str:
    """Return the name that sbatch gives a job whose batch script, in the file `path`, does not name it: the file's
    name."""
    return os.path.basename(printable_path(path))


def read_script(path: str, text: str | None = None) -> tuple[BatchScript, tuple[str, ...]]:
    """Read and parse the Slurm batch script in the file `path` (or the script `text` under this name). Return the
    script, and warnings of lines that do not do what they appear to do.

    Raise JobError, with file and line, for a script that sbatch would refuse.
    """
    source = printable_path(path)
    if text is None:
        try:
            text = script_text(path)
        except OSError as error:
            raise JobError(f"cannot read the batch script: {error.strerror}", source) from None
    script = parse_script(text, source)
    _refuse_faults(script, source)
    return script, tuple(_format_remark(remark, source) for remark in script.remarks)


def script_text(path: str) -> str:
    """Return the text of the script at `path`, which must be a regular file. Raise OSError."""
    return read_file(path, MAX_BYTES + 1).decode("utf-8", "surrogateescape")


def script_of_job(job: Job) -> BatchScript:
    """Parse the batch script that `job` contains, and return it. The job must have a script."""
    assert job.batch_script is not None
    return parse_script(job.batch_script, script_origin(job))


def script_origin(job: Job) -> str:
    """Return the name of the file that messages give for the lines of the job's batch script."""
    return job.batch_source or job.source


def effective_script(job: Job) -> BatchScript:
    """Return the batch script of `job`, as if its #SBATCH lines contained the job's own values: its number of nodes and
    of processes, and the keys of `slurm:`. An option that only the job contains has no line (0)."""
    source = script_origin(job)
    script = with_slurm_keys(script_of_job(job), job.slurm)
    own = parse_allocation_request(script, source)
    nodes, processes = job.resources.instance_count, processes_per_instance(job.distribution) or 1
    if processes != _processes(script, own) or (nodes != own.nodes and any(map(script.has_option, TOTAL_TASK_OPTIONS))):
        return with_tasks(script, nodes, processes)
    return script if nodes == own.nodes else with_nodes(script, nodes)


def allocation_request_of(job: Job) -> AllocationRequest:
    """Return the AllocationRequest (nodes, tasks, CPUs, GPUs, time limit) of a job with a batch script."""
    return parse_allocation_request(effective_script(job), script_origin(job))


def _processes(script: BatchScript, own: AllocationRequest) -> int:
    return max_tasks_per_node(script_launches(script, own), own)


def job_of_script(script: BatchScript, source: str) -> Job:
    """Return the Job that the #SBATCH lines of a batch script request, without a directory and a name. Raise JobError
    if the script requests too many ranks or runs, or has an invalid value. `source` is the script's file, for messages.
    """
    own = parse_allocation_request(script, source)
    array = parse_sbatch_array(script, source)
    processes = _processes(script, own)
    if own.nodes * processes > MAX_RANKS:
        raise JobError(f"{own.nodes * processes} ranks are more than the limit of {MAX_RANKS}", source)
    if array and len(array.indices) > MAX_ELEMENTS:
        what = f"{len(array.indices)} runs are more than the limit of {MAX_ELEMENTS}"
        raise JobError("--array: " + what, f"{source}:{script.line('array')}", "submit them in parts")
    return Job(
        batch_script=script.text,
        resources=Resources(own.nodes),
        distribution=PlainDistribution(processes),
        environment_variables=_exported_variables(script),
        count=len(array.indices) if array else None,
        at_once=min(array.at_once, len(array.indices)) if array and array.at_once else None,
    )


def _exported_variables(script: BatchScript) -> Mapping[str, str]:
    """Return the environment variables that the batch script's option `--export` sets, by name: A and B for
    `--export=ALL,A=1,B=2`."""
    parts = (script.value("export") or "").split(",")
    return {name: value for name, equals, value in (part.partition("=") for part in parts) if equals and name}


def _refuse_faults(script: BatchScript, source: str) -> None:
    if not script.faults:
        return
    texts = [_format_remark(fault, source) for fault in script.faults]
    if len(texts) == 1:
        fault = script.faults[0]
        raise JobError(fault.what, f"{source}:{fault.line}", fault.hint)
    raise JobError("{} problems:\n  {}".format(len(texts), "\n  ".join(texts)))


def _format_remark(remark: Remark, source: str) -> str:
    return "{}:{}: {}{}".format(source, remark.line, remark.what, f" ({remark.hint})" if remark.hint else "")


def with_script_values(nodes: dict[str, YamlNode], values: dict[str, Any], report: Problems) -> dict[str, Any]:
    """Return `values`, the values of a job file's keys, together with those for other keys that only the file's batch
    script contains. Raise JobError, with the place in the script, for a script that sbatch would refuse. Any other
    problem is added to `report`."""
    for key in ("modules", "setup"):
        if values.get(key):
            report.add(nodes[key], key, "has no effect with batch_script", "set it in the script")
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
    """Return the distribution of a job file with a batch script: the kind that the file gives, with the number of
    processes per node that the script requests (`own`) unless the file gives that number. If the file gives no kind,
    return that of the script."""
    kind = values.get("distribution")
    if kind is None:
        return own.distribution
    said = nodes["distribution"].value.get("process_count_per_instance")
    if processes_per_instance(kind) is None or (said is not None and said.value is not None):
        return kind
    return kind._replace(process_count_per_instance=processes_per_instance(own.distribution))


def _read_script_text(node: YamlNode, value: str, report: Problems) -> tuple[str, str, str] | None:
    """Read the batch script that a job file gives under `batch_script:`, as a text or as a file's name (`value`).
    Return the script's text, its file ("" for a text in the job file), and the name of the source in which its lines
    are counted. Return None after adding a problem to `report`."""
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
