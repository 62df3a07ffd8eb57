"""A batch script as a job: what its #SBATCH lines ask for, in the words of every job."""

from __future__ import annotations

import os
from collections.abc import Mapping

from worldsize.errors import JobError
from worldsize.plan.files import read_file
from worldsize.spec.batchcheck import most_tasks, script_launches
from worldsize.spec.batchscript import MAX_BYTES, BatchScript, Remark, parse_script
from worldsize.spec.batchsize import Asked, array_of, asked
from worldsize.spec.distribution import PlainDistribution, processes_per_instance
from worldsize.spec.job import MAX_RANKS, Job, Resources
from worldsize.spec.jobfile import Loaded, printable

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

_KEYS = dict.fromkeys(("gres", "gpus", "gpus-per-node", "gpus-per-task", "gpus-per-socket"), "gpus_per_node")
"""The key of `slurm:` that says what an option says, where its name is another."""


def load_script(path: str, cwd: str, code: str | None = None) -> Loaded:
    """The job that the script in the file `path` asks for when it is submitted in the directory `cwd`.

    `code`: another directory to run in. Raises JobError with file and line for what sbatch would refuse.
    """
    source = printable(path)
    script, warnings = read_script(path)
    return Loaded(_job(script, source, cwd, code), warnings, _lines(script))


def read_script(path: str, data: bytes | None = None) -> tuple[BatchScript, tuple[str, ...]]:
    """The script in the file `path` (or `data`, by this name), and what does not do what it looks like.

    Raises JobError with file and line for what sbatch would refuse.
    """
    source = printable(path)
    script = parse_script((_read(path, source) if data is None else data).decode("utf-8", "surrogateescape"), source)
    _refuse(script, source)
    return script, tuple(_said(remark, source) for remark in script.remarks)


def _read(path: str, source: str) -> bytes:
    try:
        return read_file(path, MAX_BYTES + 1)
    except OSError as error:
        raise JobError("cannot read the batch script: %s" % error.strerror, source) from None


def script_of_job(job: Job) -> BatchScript:
    """The script of a job that has one, read again."""
    assert job.batch_script is not None
    return parse_script(job.batch_script, job.source)


def asked_of_job(job: Job, script: BatchScript) -> Asked:
    """The script's own size, unless the job says another one (`-w`, `--set`)."""
    own = asked(script, job.source)
    nodes, processes = job.resources.instance_count, processes_per_instance(job.distribution) or 1
    if (nodes, processes) == (own.nodes, _processes(script, own)):
        return own
    return own._replace(tasks=(processes,) * nodes, tasks_said=True)


def _processes(script: BatchScript, own: Asked) -> int:
    return most_tasks(script_launches(script, own), own)


def _job(script: BatchScript, source: str, cwd: str, code: str | None) -> Job:
    own = asked(script, source)
    array = array_of(script, source)
    processes = _processes(script, own)
    if own.nodes * processes > MAX_RANKS:
        raise JobError("%d ranks are more than the limit of %d" % (own.nodes * processes, MAX_RANKS), source)
    return Job(
        batch_script=script.text,
        code=code or os.path.normpath(os.path.join(cwd, script.value("chdir") or "")),
        display_name=script.value("job-name") or os.path.basename(source),
        resources=Resources(own.nodes),
        distribution=PlainDistribution(processes),
        environment_variables=_exported(script),
        count=len(array.indices) if array else None,
        at_once=array.at_once if array else None,
        source=source,
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
    for option in script.options:
        lines["slurm.sbatch_options." + option.name] = option.line
        lines["slurm." + _KEYS.get(option.name, option.name.replace("-", "_"))] = option.line
    return {key: line for key, line in lines.items() if line is not None}
