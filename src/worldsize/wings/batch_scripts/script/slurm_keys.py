"""A batch script's options, the keys of `slurm:` that mean the same, and those keys laid over the options. Pure."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from worldsize.compute.slurm.options import GPU_OPTIONS
from worldsize.wings.batch_scripts.script.parse import BatchScript, SbatchOption

_SAME = ("account", "qos", "time", "constraint", "reservation", "dependency", "mem", "partition", "nodelist", "exclude")
"""Options that are keys of `slurm:` by their own names, with the same values."""

_NAMES = {**{name: name for name in _SAME}, "gpus_per_node": "gpus-per-node", "cpus_per_rank": "cpus-per-task"}
_REQUEUE = ("requeue", "no-requeue")
_REPLACED = {
    "gpus-per-node": GPU_OPTIONS,
    **dict.fromkeys(_REQUEUE, _REQUEUE),
}
"""What a job's own word stands in place of, where that is more than the option of that name."""

_OWN_OPTIONS = frozenset(
    ("job-name", "array", "output", "error", "open-mode", "chdir", "input", "wrap", "parsable", "wait")
)
TOTAL_TASK_OPTIONS = ("ntasks", "ntasks-per-gpu")
"""Options that say how many tasks there are whatever the number of nodes."""


def own_options(script: BatchScript) -> list[tuple[str, str | None]]:
    """What a script that is submitted as it is says to sbatch itself, of two equal options the later one: all but what
    a run needs to say."""
    options: dict[str, str | None] = {}
    for option in script.options:
        if option.name in _REQUEUE:
            for name in _REQUEUE:
                options.pop(name, None)
        options[option.name] = option.value
    return [(name, value) for name, value in options.items() if name not in _OWN_OPTIONS]


def equivalent_keys(script: BatchScript) -> dict[str, Any]:
    """Return the keys of `slurm:` that say exactly what options of the script say."""
    found: dict[str, Any] = {}
    for option in script.options:
        if option.name in _SAME and option.value and option.value.strip():
            found[option.name] = option.value
        elif option.name in _REQUEUE:
            found["requeue"] = option.name == "requeue"
    return found


def with_slurm_keys(script: BatchScript, slurm: Mapping[str, Any]) -> BatchScript:
    """Return the script as if its #SBATCH lines said what the keys of a job's `slurm:` say. An option that says so
    already keeps its line; any other has none (0)."""
    for name, value in _options(slurm):
        replaced = _REPLACED.get(name, (name,))
        there = [(option.name, option.value) for option in script.options if option.name in replaced]
        if there[-1:] != [(name, value)] or (replaced is GPU_OPTIONS and len(there) > 1):
            script = _with_options(script, replaced, (SbatchOption(name, value, 0),))
    return _with_options(script, ("exclusive",)) if slurm.get("exclusive") == "false" else script


def with_nodes(script: BatchScript, nodes: int) -> BatchScript:
    """Return the script as if its #SBATCH lines asked for so many nodes, and for as many tasks on each as before."""
    return _with_options(script, ("nodes",), (SbatchOption("nodes", str(nodes), 0),))


def with_tasks(script: BatchScript, nodes: int, per_node: int) -> BatchScript:
    """Return the script as if its #SBATCH lines asked for so many nodes, and for so many tasks on each."""
    said = (SbatchOption("nodes", str(nodes), 0), SbatchOption("ntasks-per-node", str(per_node), 0))
    return _with_options(script, ("nodes", "ntasks-per-node", *TOTAL_TASK_OPTIONS), said)


def _with_options(script: BatchScript, without: tuple[str, ...], said: tuple[SbatchOption, ...] = ()) -> BatchScript:
    return script._replace(options=(*(each for each in script.options if each.name not in without), *said))


def _options(slurm: Mapping[str, Any]) -> Iterator[tuple[str, str | None]]:
    for key, value in slurm.items():
        if key in _NAMES:
            yield _NAMES[key], ",".join(value) if isinstance(value, (list, tuple)) else str(value)
        elif key == "requeue":
            yield _REQUEUE[not value], None
        elif key == "exclusive" and value != "false":
            yield "exclusive", None if value == "true" else value
    for name, value in slurm.get("sbatch_options", {}).items():
        yield name.lower().lstrip("-").replace("_", "-"), value or None
