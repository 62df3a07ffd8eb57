"""The numbers that a batch script requests, counted as Slurm would. Pure."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import NamedTuple

from worldsize.common.atomic_files import printable_text
from worldsize.common.numbers import parse_digits
from worldsize.errors import JobError
from worldsize.jobspec.job import MAX_RANKS
from worldsize.plan.hostlist import MAX_NAMES, expand_hostlist
from worldsize.plan.time_limit import limit_seconds
from worldsize.wings.batch_scripts.agent.step_size import tasks_per_node
from worldsize.wings.batch_scripts.script.parse import BLANKS, BatchScript

_MINIMUM = re.compile(r"([0-9]+)([kKmM]?)(?:[-,:][-,:0-9kKmM]*)?")
_SUFFIXES = {"": 1, "k": 1024, "m": 1024**2}
_TOO_LONG = re.compile(r"[0-9]{16}")
_INDICES = re.compile(r"([0-9]{1,15})(?:-([0-9]{1,15})(?::([0-9]{1,15}))?)?")
_GPU = re.compile(r"(gres[:/])?gpu\b")
_DIGITS = re.compile(r"[0-9]+")
MAX_NODES = MAX_NAMES
"""The maximum number of nodes: as many as a list of nodes can name, which is also Slurm's own limit."""

_MAX_INDICES = 100_000
_MAX_GPUS = 10_000
"""The maximum number of GPUs of one node. Each of them has a number in a variable of the script."""

_MAX_MINUTES = 1 << 32
"""The longest time limit that Slurm accepts, in minutes."""


class AllocationRequest(NamedTuple):
    """The allocation that a script requests.

    tasks          the number of tasks of each node, in order; balanced if the script does not determine them
    tasks_said     whether the script gives the number of tasks (otherwise sbatch sets no SLURM_NTASKS)
    cpus_per_task  None if the script does not give it
    gpus           the number of GPUs of each node; None if the script does not give it
    seconds        the time limit; None for no limit
    """

    tasks: tuple[int, ...]
    tasks_said: bool = False
    cpus_per_task: int | None = None
    gpus: int | None = None
    seconds: float | None = None

    @property
    def nodes(self) -> int:
        return len(self.tasks)

    @property
    def cpus(self) -> int:
        """The minimum number of CPUs of each node."""
        return max(self.tasks) * (self.cpus_per_task or 1)


class SbatchArray(NamedTuple):
    indices: tuple[int, ...]
    at_once: int | None = None


def parse_allocation_request(script: BatchScript, source: str) -> AllocationRequest:
    """Return the allocation (nodes, tasks, CPUs, GPUs, time limit) that the #SBATCH options of a batch script request.
    Raise JobError, with its line, for a value that is not valid. `source` is the script's file, for messages."""
    read = _SizeReader(script, source)
    read.check_memory()
    nodes = read.number("nodes", MAX_NODES, "number of nodes")
    tasks, per_node = read.number("ntasks"), read.number("ntasks-per-node")
    gpus = _gpus_per_node(read, nodes)
    if nodes is None:
        nodes = len(read.names("nodelist")) or (-(-tasks // per_node) if tasks and per_node else 1)
    if nodes > MAX_NODES:
        raise JobError(f"{nodes} nodes are more than the limit of {MAX_NODES}", read.origin("ntasks"))
    per_gpu = read.number("ntasks-per-gpu")
    if tasks is None and per_node is None and per_gpu and gpus:
        per_node = per_gpu * gpus
    shares = (per_node or 1,) * nodes if tasks is None else tasks_per_node(tasks, min(nodes, tasks))
    if sum(shares) > MAX_RANKS:
        what = f"{sum(shares)} tasks are more than the limit of {MAX_RANKS}"
        raise JobError(what, read.origin("ntasks-per-node", "ntasks-per-gpu", "gpus-per-node", "ntasks", "nodes"))
    said = tasks is not None or per_node is not None
    return AllocationRequest(shares, said, read.number("cpus-per-task"), gpus, read.seconds())


def parse_sbatch_array(script: BatchScript, source: str) -> SbatchArray | None:
    """Return the job array of a batch script's option `--array`, with its sorted indices and its limit: `0-9:3,12%2` is
    0, 3, 6, 9 and 12, two at a time. Return None if the script has no array. Raise JobError for an invalid value."""
    option = script.option("array")
    if option is None:
        return None
    text, percent, limit = (option.value or "").partition("%")
    found, at_once = _parse_indices(text), parse_digits(limit) if percent else None
    if not found or (percent and not at_once):
        what = "--array={} is not a list of at most {} indices".format(
            printable_text(f"{option.value!s:.40}"), _MAX_INDICES
        )
        raise JobError(what, f"{source}:{option.line}")
    return SbatchArray(tuple(sorted(set(found))), at_once)


def _parse_indices(text: str) -> list[int]:
    """Return the indices in `text`, the list of a job array such as `0-9:3,12`, as written; an empty list if `text` is
    not a list of indices, or is too long a list."""
    found: list[int] = []
    for part in text.split(","):
        match = _INDICES.fullmatch(part.strip())
        step = int(match[3] or 1) if match else 0
        if match is None or not step:
            return []
        each = range(int(match[1]), int(match[2] or match[1]) + 1, step)
        if not each or len(found) + len(each) > _MAX_INDICES:
            return []
        found += each
    return found


def _gpus_per_node(read: _SizeReader, nodes: int | None) -> int | None:
    """Return the number of GPUs of each node that a batch script requests, from --gpus-per-node, --gres=gpu:…, --gpus
    divided by the nodes, or --gpus-per-task; None if none of these options is given. Raise JobError if the number is
    above the limit."""
    name, found = next(((name, gpus) for name, gpus in _gpu_counts(read, nodes) if gpus is not None), ("", None))
    if found is not None and found > _MAX_GPUS:
        raise read.value_error(name, f"more than {_MAX_GPUS} GPUs on a node")
    return found


def _gpu_counts(read: _SizeReader, nodes: int | None) -> Iterator[tuple[str, int | None]]:
    yield "gpus-per-node", read.gpus("gpus-per-node")
    yield "gres", read.gpus("gres")
    total = read.gpus("gpus")
    yield "gpus", None if total is None else -(-total // (nodes or 1))
    per_task = read.gpus("gpus-per-task")
    tasks = read.number("ntasks-per-node") or -(-(read.number("ntasks") or nodes or 1) // (nodes or 1))
    yield "gpus-per-task", None if per_task is None else per_task * tasks


class _SizeReader:
    """Reader of option values as numbers. A value that is not a number is an error with its line."""

    def __init__(self, script: BatchScript, source: str) -> None:
        self._script = script
        self._source = source

    def number(self, name: str, most: int = MAX_RANKS, what: str = "number") -> int | None:
        """Return the value of the script's option `name` as a number; None if the option is not given. For a range of
        nodes, return the minimum: 2 for `2-4`. Raise JobError for a value that is no number from 1 to `most`."""
        value = self._script.value(name)
        if value is None:
            return None
        text = value.strip(BLANKS)
        least = _MINIMUM.fullmatch(text) if name == "nodes" else None
        text = least[1] if least else text
        number = parse_digits(text)
        if number and least:
            number *= _SUFFIXES[least[2].lower()]
        if number and number > most:
            raise self.value_error(name, f"more than the limit of {most}")
        if not number:
            raise self.value_error(name, f"not a number from 1 to {most}" if text.isdigit() else f"not a {what}")
        return number

    def gpus(self, name: str) -> int | None:
        """Return the number of GPUs in the value of the script's option `name`, such as `4` or `a100:4`; the numbers of
        several kinds are added. In `--gres` only GPUs count, and a GPU entry without a number counts as one. Return
        None if no GPUs are given."""
        parts = [part for part in (self._script.value(name) or "").split(",") if part]
        if name == "gres":
            parts = [part for part in parts if _GPU.match(part)]
        found = [part.partition("(")[0].rpartition(":")[2] for part in parts]
        numbers = [1 if name == "gres" and not _DIGITS.fullmatch(text) else parse_digits(text) for text in found]
        if None in numbers:
            raise self.value_error(name, "not a number of GPUs")
        return sum(filter(None, numbers)) if numbers else None

    def check_memory(self) -> None:
        for name in ("mem", "mem-per-cpu"):
            if _TOO_LONG.search(self._script.value(name) or ""):
                raise self.value_error(name, "not a size of memory")

    def names(self, name: str) -> list[str]:
        value = self._script.value(name)
        try:
            return expand_hostlist(value) if value and "/" not in value else []
        except ValueError as error:
            raise self.value_error(name, "not a list of nodes", str(error)) from None

    def seconds(self) -> float | None:
        try:
            seconds = limit_seconds(self._script.value("time"))
        except (ValueError, OverflowError):
            raise self.value_error("time", "not a time limit") from None
        if seconds is not None and seconds > 60 * _MAX_MINUTES:
            raise self.value_error("time", f"longer than {_MAX_MINUTES} minutes")
        return seconds

    def origin(self, *names: str) -> str:
        """Return the place (`file:line`) of the last of the options `names` in the batch script."""
        return f"{self._source}:{self._script.line(*names)}"

    def value_error(self, name: str, what: str, hint: str | None = None) -> JobError:
        text = printable_text(f"{self._script.value(name)!s:.40}")
        return JobError(f"--{name}={text} is {what}", self.origin(name), hint)
