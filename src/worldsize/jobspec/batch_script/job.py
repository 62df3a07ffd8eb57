"""A batch script as a job: what its #SBATCH lines ask for, in the words of every job; and the other way."""

from __future__ import annotations

import os
from collections.abc import Mapping

from worldsize.common.atomic_files import read_file
from worldsize.errors import JobError
from worldsize.jobspec.batch_script.check import most_tasks, script_launches
from worldsize.jobspec.batch_script.parse import MAX_BYTES, BatchScript, Remark, parse_script
from worldsize.jobspec.batch_script.size import Asked, array_of, asked
from worldsize.jobspec.batch_script.slurm_keys import IN_ALL, with_nodes, with_slurm_keys, with_tasks
from worldsize.jobspec.distribution import PlainDistribution, processes_per_instance
from worldsize.jobspec.job import Job, Loaded, Resources
from worldsize.jobspec.limits import MAX_RANKS
from worldsize.jobspec.paths import printable
from worldsize.plan.array import MAX_ELEMENTS

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


def load_script(path: str, cwd: str, code: str | None = None) -> Loaded:
    """The job that the script in the file `path` asks for when it is submitted in the directory `cwd`.

    `code`: another directory to run in. Raises JobError with file and line for what sbatch would refuse.
    """
    source = printable(path)
    script, warnings = read_script(path)
    code = code or os.path.normpath(os.path.join(cwd, script.value("chdir") or ""))
    name = script.value("job-name") or name_of(path)
    job = job_of_script(script, source)._replace(code=code, display_name=name, source=source)
    return Loaded(job, warnings, _lines(script))


def name_of(path: str) -> str:
    """The name of a job whose script in this file says none: as sbatch gives it."""
    return os.path.basename(printable(path))


def read_script(path: str, text: str | None = None) -> tuple[BatchScript, tuple[str, ...]]:
    """The script in the file `path` (or `text`, by this name), and what does not do what it looks like.

    Raises JobError with file and line for what sbatch would refuse.
    """
    source = printable(path)
    if text is None:
        try:
            text = script_text(path)
        except OSError as error:
            raise JobError("cannot read the batch script: %s" % error.strerror, source) from None
    script = parse_script(text, source)
    _refuse(script, source)
    return script, tuple(_said(remark, source) for remark in script.remarks)


def script_text(path: str) -> str:
    """Of a regular file, and of no other. Raises OSError."""
    return read_file(path, MAX_BYTES + 1).decode("utf-8", "surrogateescape")


def script_of_job(job: Job) -> BatchScript:
    """The script of a job that has one, read again."""
    assert job.batch_script is not None
    return parse_script(job.batch_script, place_of_script(job))


def place_of_script(job: Job) -> str:
    """Where the lines of a job's script are counted, for messages."""
    return job.batch_source or job.source


def script_as_asked(job: Job) -> BatchScript:
    """The script of a job that has one, as if its #SBATCH lines said what the job says of them: its size, the keys of
    `slurm:`. An option that is the job's word alone has no line (0)."""
    source = place_of_script(job)
    script = with_slurm_keys(script_of_job(job), job.slurm)
    own = asked(script, source)
    nodes, processes = job.resources.instance_count, processes_per_instance(job.distribution) or 1
    if processes != _processes(script, own) or (nodes != own.nodes and any(map(script.says, IN_ALL))):
        return with_tasks(script, nodes, processes)
    return script if nodes == own.nodes else with_nodes(script, nodes)


def asked_of_job(job: Job) -> Asked:
    """The allocation that a job with a script asks for."""
    return asked(script_as_asked(job), place_of_script(job))


def _processes(script: BatchScript, own: Asked) -> int:
    return most_tasks(script_launches(script, own), own)


def job_of_script(script: BatchScript, source: str) -> Job:
    """What the script asks for, without a directory and a name."""
    own = asked(script, source)
    array = array_of(script, source)
    processes = _processes(script, own)
    if own.nodes * processes > MAX_RANKS:
        raise JobError("%d ranks are more than the limit of %d" % (own.nodes * processes, MAX_RANKS), source)
    if array and len(array.indices) > MAX_ELEMENTS:
        what = "%d runs are more than the limit of %d" % (len(array.indices), MAX_ELEMENTS)
        raise JobError("--array: " + what, "%s:%s" % (source, script.line("array")), "submit them in parts")
    return Job(
        batch_script=script.text,
        resources=Resources(own.nodes),
        distribution=PlainDistribution(processes),
        environment_variables=_exported(script),
        count=len(array.indices) if array else None,
        at_once=min(array.at_once, len(array.indices)) if array and array.at_once else None,
    )


def _exported(script: BatchScript) -> Mapping[str, str]:
    """The values in `--export=ALL,A=1,B=2`."""
    parts = (script.value("export") or "").split(",")
    return {name: value for name, equals, value in (part.partition("=") for part in parts) if equals and name}


def _refuse(script: BatchScript, source: str) -> None:
    if not script.faults:
        return
    texts = [_said(fault, source) for fault in script.faults]
    if len(texts) == 1:
        fault = script.faults[0]
        raise JobError(fault.what, "%s:%d" % (source, fault.line), fault.hint)
    raise JobError("%d problems:\n  %s" % (len(texts), "\n  ".join(texts)))


def _said(remark: Remark, source: str) -> str:
    return "%s:%d: %s%s" % (source, remark.line, remark.what, " (%s)" % remark.hint if remark.hint else "")


def _lines(script: BatchScript) -> dict[str, int]:
    lines = {key: script.line(*names) for key, names in _LINES.items()}
    return {key: line for key, line in lines.items() if line is not None}
