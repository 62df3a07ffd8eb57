"""A batch script's options as the keys of `slurm:`. Pure."""

from __future__ import annotations

import re
from typing import Any

from worldsize.spec.batchscript import BatchScript, Option
from worldsize.spec.batchsize import Asked

_SAME = ("account", "qos", "time", "constraint", "reservation", "dependency", "mem", "partition", "nodelist", "exclude")
_ELSEWHERE = frozenset((
    "nodes", "ntasks", "ntasks-per-node", "ntasks-per-gpu", "job-name", "array", "cpus-per-task", "gpus",
    "gpus-per-node", "gpus-per-task", "verbose", "quiet", "parsable",
))  # fmt: skip
"""Said by other keys of the job, or worked out from them."""

_DROPPED = {
    "output": "every rank has a log of its own: worldsize logs",
    "error": "every rank has a log of its own: worldsize logs",
    "open-mode": "logs are never overwritten",
    "chdir": "code: names the directory instead",
    "input": "ranks read no standard input",
    "export": "environment_variables: says what every rank gets",
    "export-file": "environment_variables: says what every rank gets",
    "get-user-env": "setup: has lines to execute first",
    "wrap": "command: says what is executed",
    "wait": "worldsize run waits",
    "hold": "scontrol hold holds a submitted run",
    "test-only": "worldsize run --dry-run tells what would be submitted",
    "kill-on-invalid-dep": "a run that can never start says so",
    "ntasks-per-core": "cpus_per_rank: says how ranks share cores",
    "ntasks-per-socket": "cpus_per_rank: says how ranks share cores",
    "uid": "runs are the user's own",
    "gid": "runs are the user's own",
}
_SIGNAL = re.compile(r"(?:[A-Z]+:)?([A-Za-z0-9]+)(@\d+)?")


_OURS = frozenset(("job-name", "array", "output", "error", "open-mode", "chdir", "input", "wrap", "parsable", "wait"))
_SIZE = frozenset(("nodes", "ntasks", "ntasks-per-node"))


def own_options(script: BatchScript, resized: bool = False) -> list[tuple[str, str | None]]:
    """What a script that is submitted as it is says to sbatch itself, of two equal options the later one: all but what
    a run needs to say. `resized`: the run's size is another than the script's, so that is left out too."""
    options = {option.name: option.value for option in script.options}
    left_out = _OURS | _SIZE if resized else _OURS
    return [(name, value) for name, value in options.items() if name not in left_out]


def slurm_keys(script: BatchScript, asked: Asked, ranks_per_task: int = 1) -> tuple[dict[str, Any], list[str]]:
    """The keys, and for each option that is none of them why. Of two equal options the later one counts."""
    found: dict[str, Any] = {}
    raw: dict[str, str] = {}
    dropped: list[str] = []
    for option in {option.name: option for option in script.options}.values():
        name = option.name
        if name in _DROPPED:
            dropped.append("line %d: --%s (%s)" % (option.line, name, _DROPPED[name]))
        elif name in _SAME and option.value:
            found[name] = option.value
        elif name in ("requeue", "no-requeue"):
            found["requeue"] = name == "requeue"
        elif name == "exclusive":
            found["exclusive"] = option.value or "true"
        elif name == "signal":
            found["signal"] = _signal(option, dropped)
        elif name == "gres" and asked.gpus is not None and "," not in (option.value or ","):
            found["gpus_per_node"] = (option.value or "").partition(":")[2] or "1"
        elif name not in _ELSEWHERE:
            raw[name] = option.value or ""
    if asked.gpus and "gpus_per_node" not in found:
        found["gpus_per_node"] = script.value("gpus-per-node") or str(asked.gpus)
    if asked.cpus_per_task:
        found["cpus_per_rank"] = max(1, asked.cpus_per_task // ranks_per_task)
    return ({**found, "sbatch_options": raw} if raw else found), dropped


def _signal(option: Option, dropped: list[str]) -> str:
    """Ranks get it, not the batch shell, which only waits."""
    found = _SIGNAL.fullmatch(option.value or "")
    if found is None:
        return option.value or ""
    if ":" in (option.value or ""):
        dropped.append("line %d: --signal=%s (every rank gets the signal)" % (option.line, option.value))
    return "%s%s" % (found[1].upper(), found[2] or "@60")
