"""Translation between a batch script's options and the keys of `slurm:` that mean the same, and the script with those
keys applied to its options. Pure."""

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
"""The options that an option of the job replaces, if they are more than the option of the same name."""

_OWN_OPTIONS = frozenset(
    ("job-name", "array", "output", "error", "open-mode", "chdir", "input", "wrap", "parsable", "wait")
)
TOTAL_TASK_OPTIONS = ("ntasks", "ntasks-per-gpu")
"""Options that determine the number of tasks independently of the number of nodes."""


def own_options(script: BatchScript) -> list[tuple[str, str | None]]:
    """Return the options, as pairs of name and value, that a batch script passes to sbatch itself when it is submitted
    unchanged, without those that a run must set. Of two options with the same name, the later one counts."""
    options: dict[str, str | None] = {}
    for option in script.options:
        if option.name in _REQUEUE:
            for name in _REQUEUE:
                options.pop(name, None)
        options[option.name] = option.value
    return [(name, value) for name, value in options.items() if name not in _OWN_OPTIONS]


def equivalent_keys(script: BatchScript) -> dict[str, Any]:
    """Return the keys of a job file's `slurm:`, with their values, that mean exactly the same as #SBATCH options of the
    script."""
    found: dict[str, Any] = {}
    for option in script.options:
        if option.name in _SAME and option.value and option.value.strip():
            found[option.name] = option.value
        elif option.name in _REQUEUE:
            found["requeue"] = option.name == "requeue"
    return found


def with_slurm_keys(script: BatchScript, slurm: Mapping[str, Any]) -> BatchScript:
    """Return the batch script as if its #SBATCH lines contained the keys of a job's `slurm:`. An option that has the
    same value already keeps its line; any other has none (0)."""
    for name, value in _options(slurm):
        replaced = _REPLACED.get(name, (name,))
        there = [(option.name, option.value) for option in script.options if option.name in replaced]
        if there[-1:] != [(name, value)] or (replaced is GPU_OPTIONS and len(there) > 1):
            script = _with_options(script, replaced, (SbatchOption(name, value, 0),))
    return _with_options(script, ("exclusive",)) if slurm.get("exclusive") == "false" else script


def with_nodes(script: BatchScript, nodes: int) -> BatchScript:
    """Return the script as if its #SBATCH lines requested `nodes` nodes, with as many tasks on each as before."""
    return _with_options(script, ("nodes",), (SbatchOption("nodes", str(nodes), 0),))


def with_tasks(script: BatchScript, nodes: int, per_node: int) -> BatchScript:
    """Return the script as if its #SBATCH lines requested `nodes` nodes and `per_node` tasks on each."""
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
