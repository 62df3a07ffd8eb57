"""The sbatch options that a job and its compute request. The #SBATCH lines of a user's own script stay as they are. All
functions are pure."""

from __future__ import annotations

import math
import re
from collections.abc import Iterator, Mapping

from worldsize.common.named_tuple import Any
from worldsize.common.numbers import parse_digits
from worldsize.errors import JobError
from worldsize.jobspec.job import Job
from worldsize.plan.plan import Plan
from worldsize.plan.time_limit import scheduler_seconds

GPU_OPTIONS = ("gres", "gpus", "gpus-per-node", "gpus-per-task", "gpus-per-socket")

_PROTECTED: Mapping[str, str] = {
    "nodes": "resources.instance_count",
    "ntasks": "distribution.process_count_per_instance",
    "ntasks-per-node": "distribution.process_count_per_instance",
    "ntasks-per-gpu": "distribution.process_count_per_instance",
    "ntasks-per-core": "slurm.cpus_per_rank",
    "ntasks-per-socket": "slurm.cpus_per_rank",
    "gpus-per-task": "slurm.gpus_per_node",
    "cpus-per-task": "slurm.cpus_per_rank",
    "job-name": "display_name: the job's own name in Slurm is the run's id, by which a lost reply is found again",
    "array": "matrix or count",
    "chdir": "code: ranks run in its snapshot",
    "output": "nothing: every rank has a log of its own, and the script's is batch.log of the run",
    "error": "nothing: every rank has a log of its own, and the script's is batch.log of the run",
    "input": "nothing: ranks read no standard input",
    "open-mode": "nothing: logs are never overwritten",
    "export": "environment_variables",
    "export-file": "environment_variables",
    "get-user-env": "setup",
    "wrap": "command",
    "parsable": "nothing: worldsize requests it",
    "test-only": "nothing: preflight checks that",
    "wait": "worldsize run, which waits",
    "kill-on-invalid-dep": "nothing: a run that can never start reports it",
    "hold": "nothing: scontrol hold holds a submitted run",
    "uid": "nothing",
    "gid": "nothing",
    "quiet": "nothing",
    "verbose": "nothing",
}
"""Options that decide how ranks are laid out, where they write or how worldsize finds them, each with what to write
instead."""

_PLAIN = r"[\w@%+=:,./\[\]*&|!()<>~^-]*"
_NAME = r"[a-z][a-z0-9-]*"
_SIGNAL = r"(?:(?P<to>[A-Za-z]{1,2}:)?(?P<name>[A-Za-z][A-Za-z0-9]*|[0-9]+)@)?(?P<seconds>[0-9]{1,15})"
_TEXTS = ("account", "qos", "reservation", "constraint", "partition", "nodelist", "exclude", "gpus_per_node", "mem")

Option = tuple[str, "str | None"]


def merge_options(defaults: Mapping[str, Any], job: Job, gpus_per_node: int | None = None) -> dict[str, Any]:
    """Return the Slurm options that apply to the job: the compute's `defaults`, overridden key by key by the job's
    `slurm:` section, and within `sbatch_options` name by name. `gpus_per_node` is used if `defaults` has none. The
    compute's `modules` and `setup` are left out."""
    found = {key: value for key, value in defaults.items() if key not in ("modules", "setup")}
    if gpus_per_node:
        found.setdefault("gpus_per_node", str(gpus_per_node))
    raw = {**found.get("sbatch_options", {}), **job.slurm.get("sbatch_options", {})}
    found.update(job.slurm)
    return {**found, "sbatch_options": raw} if raw else found


def gpus_per_node(asked: Mapping[str, Any]) -> int | None:
    """Parse the option `gpus_per_node` of the merged Slurm options `asked`, `4` or `a100:4`, and return the number of
    GPUs; None if the option is not set. Raise JobError if the value has neither form."""
    text = asked.get("gpus_per_node")
    if text is None:
        return None
    number = parse_digits(str(text).rpartition(":")[2])
    if number is None:
        raise JobError(f"{text!r:.40} is not a number of GPUs", "slurm.gpus_per_node", "write 4, or a100:4")
    return number


def sbatch_options(asked: Mapping[str, Any], plan: Plan) -> list[Option]:
    """Convert the merged Slurm options `asked` and the run's `plan` to sbatch options: a list of (long name, value), in
    the order of the batch script's #SBATCH lines. The value is None for an option without one. Raise JobError if
    `asked` sets an option that worldsize itself must set, or sets one in a wrong form."""
    # True means an option without a value; None and False mean that there is no such option.
    exclusive = asked.get("exclusive", "false")
    said = {
        "job-name": plan.array.run_id if plan.array else plan.run_id,
        "nodes": str(len(plan.nodes)),
        "ntasks-per-node": str(max(len(node.ranks) for node in plan.nodes)),
        "cpus-per-task": asked.get("cpus_per_rank"),
        **{key.replace("_", "-"): _comma_list(asked[key]) for key in _TEXTS if _is_set(asked, key)},
        "time": asked.get("time") or _time_of(plan),
        "exclusive": {"true": True, "false": False}.get(exclusive, exclusive),
        "requeue": asked.get("requeue") is True,
        "no-requeue": asked.get("requeue") is False,
        "no-kill": bool(plan.spare),
        "dependency": asked.get("dependency"),
        "signal": "{}@{}".format(*signal_of(asked["signal"])) if "signal" in asked else None,
    }
    options = [(name, None if value is True else str(value)) for name, value in said.items() if value]
    return options + list(_extra_options(asked.get("sbatch_options", {})))


def directive(option: Option) -> str:
    """Return the sbatch option (name, value) as an #SBATCH line of a batch script, with its value quoted where needed.
    sbatch splits such a line at blanks, and reads # as the start of a comment. Raise JobError if the value contains a
    line break or another character that cannot be printed."""
    name, value = option
    if value is not None and not value.isprintable():
        raise JobError("holds a line break, or another character that cannot be shown", f"slurm.{name}")
    if value is not None and not re.fullmatch(_PLAIN, value):
        value = '"{}"'.format(value.replace("\\", "\\\\").replace('"', '\\"'))
    return "#SBATCH --{}".format(name if value is None else f"{name}={value}")


def signal_of(text: str) -> tuple[str, int]:
    """Parse the option `slurm.signal`, `120` or `USR1@120`, and return (signal, seconds before the time limit). The
    default signal is TERM. Raise JobError if the text has another form, or requests a signal for the batch shell."""
    found = re.fullmatch(_SIGNAL, str(text).strip())
    if found is None:
        raise JobError(f"{text!r:.40} is not a signal", "slurm.signal", "write 120 (seconds), or USR1@120")
    if found["to"] and found["to"].upper() != "R:":
        what = f"{found['to']} asks for the batch shell, which only waits here"
        raise JobError(what, "slurm.signal", "leave it out: every rank gets the signal")
    return (found["to"] or "").upper() + (found["name"] or "TERM").upper().removeprefix("SIG"), int(found["seconds"])


def _is_set(asked: Mapping[str, Any], key: str) -> bool:
    return key in asked and not (key == "gpus_per_node" and gpus_per_node(asked) == 0)


def _comma_list(value: Any) -> str:
    return ",".join(value) if isinstance(value, (list, tuple)) else str(value)


def _time_of(plan: Plan) -> str | None:
    """Return the time limit of the run's plan in whole minutes, rounded up, as the text for sbatch's --time; None if
    the plan has no limit."""
    seconds = scheduler_seconds(plan)
    return None if seconds is None else str(math.ceil(seconds / 60))


def _extra_options(given: Mapping[str, str]) -> Iterator[Option]:
    for name, value in given.items():
        where = f"slurm.sbatch_options.{name:.60}"
        plain = name.lower().lstrip("-").replace("_", "-")
        if plain in _PROTECTED:
            raise JobError(f"{plain} cannot be set here", where, f"use {_PROTECTED[plain]}")
        if not re.fullmatch(_NAME, plain):
            raise JobError("is not a long option of sbatch", where, "write its long name, such as mail-type")
        if "\n" in value:
            raise JobError("holds a line break", where)
        yield plain, value or None


_SIZE = ("nodes", "ntasks-per-node")


def script_options(defaults: Mapping[str, Any], gpus_per_node: int | None, job: Job, plan: Plan) -> list[Option]:
    """Return the sbatch options, as (long name, value), for a job that runs the user's own batch script. The script's
    #SBATCH options override the compute's `defaults`, and the options that the job sets next to the script (its size,
    `slurm:`) override both."""
    from worldsize.jobspec.batch_script import script_reader

    own = dict(script_reader().sbatch_options(job))
    base = dict(sbatch_options(merge_options(defaults, job._replace(slurm={}), gpus_per_node), plan))
    said = dict(sbatch_options(job.slurm, plan))
    for name in _SIZE:
        del base[name], said[name]
    if any(name in own for name in GPU_OPTIONS):
        base.pop("gpus-per-node", None)
    return list({**base, **own, **said}.items())
