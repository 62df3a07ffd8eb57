"""What a batch script asks for in numbers, as Slurm would count it. Pure."""

from __future__ import annotations

import re
from typing import NamedTuple

from worldsize.common.atomic_files import printable_text
from worldsize.common.numbers import parse_digits
from worldsize.errors import JobError
from worldsize.jobspec.job import MAX_RANKS
from worldsize.plan.hostlist import MAX_NAMES, expand_hostlist
from worldsize.plan.time_limit import limit_seconds
from worldsize.wings.batch_scripts.script.parse import BLANKS, BatchScript

_MINIMUM = re.compile(r"([0-9]+)(?:[-,:][-,:0-9]*)?[kKmM]?")
_TOO_LONG = re.compile(r"[0-9]{16}")
_INDICES = re.compile(r"([0-9]{1,15})(?:-([0-9]{1,15})(?::([0-9]{1,15}))?)?")
_DIGITS = re.compile(r"[0-9]+")
MAX_NODES = MAX_NAMES
"""As many as a list of nodes can name, which is Slurm's own limit, too."""

_MAX_INDICES = 100_000
_MAX_GPUS = 10_000
"""Of one node: each of them has a number in a variable of the script."""

_MAX_MINUTES = 1 << 32
"""Slurm's own limit of a time limit."""


class AllocationRequest(NamedTuple):
    """The allocation.

    tasks         of each node, in order; balanced where the script leaves it open
    tasks_said    whether it says how many (otherwise sbatch sets no SLURM_NTASKS)
    cpus_per_task None where it does not say
    gpus          of each node; None where it does not say
    seconds       its time limit, None for none
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
        """Of each node, at the least."""
        return max(self.tasks) * (self.cpus_per_task or 1)


class SbatchArray(NamedTuple):
    indices: tuple[int, ...]
    at_once: int | None = None


def parse_allocation_request(script: BatchScript, source: str) -> AllocationRequest:
    """Raises JobError with the line of a value that is none."""
    read = _SizeReader(script, source)
    read.check_memory()
    nodes, tasks, per_node = read.nodes(), read.number("ntasks"), read.number("ntasks-per-node")
    gpus = _gpus_per_node(read, nodes)
    if nodes is None:
        nodes = len(read.names("nodelist")) or (-(-tasks // per_node) if tasks and per_node else 1)
    if nodes > MAX_NODES:
        raise JobError(f"{nodes} nodes are more than the limit of {MAX_NODES}", read.origin("ntasks"))
    per_gpu = read.number("ntasks-per-gpu")
    if tasks is None and per_node is None and per_gpu and gpus:
        per_node = per_gpu * gpus
    if tasks is None:
        shares = (per_node or 1,) * nodes
    else:
        nodes = min(nodes, tasks)
        share, left = divmod(tasks, nodes)
        shares = tuple(share + (index < left) for index in range(nodes))
    if sum(shares) > MAX_RANKS:
        what = f"{sum(shares)} tasks are more than the limit of {MAX_RANKS}"
        raise JobError(what, read.origin("ntasks-per-node", "ntasks-per-gpu", "gpus-per-node", "ntasks", "nodes"))
    said = tasks is not None or per_node is not None
    return AllocationRequest(shares, said, read.number("cpus-per-task"), gpus, read.seconds())


def parse_sbatch_array(script: BatchScript, source: str) -> SbatchArray | None:
    """The job array's indices, in order; `0-9:3,12%2` is 0, 3, 6, 9 and 12, two at a time."""
    option = script.option("array")
    if option is None:
        return None
    text, percent, limit = (option.value or "").partition("%")
    found, at_once = _parse_indices(text), parse_digits(limit) if percent else None
    if not found or (percent and not at_once):
        what = "--array={} is no list of at most {} indices".format(
            printable_text(f"{option.value!s:.40}"), _MAX_INDICES
        )
        raise JobError(what, f"{source}:{option.line}")
    return SbatchArray(tuple(sorted(set(found))), at_once)


def _parse_indices(text: str) -> list[int]:
    """As written; none for what is no list of them, or too long a one."""
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
    """Of each node: from --gpus-per-node, --gres=gpu:…, --gpus over the nodes, or --gpus-per-task."""
    per_node = read.count("gpus-per-node")
    if per_node is not None:
        return read.check_gpus(per_node, "gpus-per-node")
    found = [read.gpu_count(part) for part in read.parts("gres") if re.match(r"(gres[:/])?gpu\b", part)]
    if found:
        return read.check_gpus(sum(found), "gres")
    total = read.count("gpus")
    if total is not None:
        return read.check_gpus(-(-total // (nodes or 1)), "gpus")
    per_task = read.count("gpus-per-task")
    if per_task is None:
        return None
    tasks = read.number("ntasks-per-node") or -(-(read.number("ntasks") or nodes or 1) // (nodes or 1))
    return read.check_gpus(per_task * tasks, "gpus-per-task")


class _SizeReader:
    """Values of options as numbers; what is none is an error with its line."""

    def __init__(self, script: BatchScript, source: str) -> None:
        self._script = script
        self._source = source

    def number(self, name: str) -> int | None:
        value = self._script.value(name)
        if value is None:
            return None
        return self._number_within(name, value.strip(BLANKS), MAX_RANKS, "no number")

    def nodes(self) -> int | None:
        """The least that will do: 2 of `2-4`."""
        value = self._script.value("nodes")
        if value is None:
            return None
        least = _MINIMUM.fullmatch(value.strip(BLANKS))
        return self._number_within("nodes", least[1] if least else value, MAX_NODES, "no number of nodes")

    def _number_within(self, name: str, text: str, most: int, otherwise: str) -> int:
        number = parse_digits(text)
        if number and number > most:
            raise self._value_error(name, f"more than the limit of {most}")
        if not number:
            raise self._value_error(name, otherwise if not text.isdigit() else f"no number from 1 to {most}")
        return number

    def count(self, name: str) -> int | None:
        """The number in `4` or `a100:4`; several kinds add up."""
        parts = self.parts(name)
        return sum(self.gpu_count(part, name) for part in parts) if parts else None

    def gpu_count(self, part: str, name: str = "gres") -> int:
        number = part.partition("(")[0].rpartition(":")[2]
        if name == "gres" and not _DIGITS.fullmatch(number):
            return 1
        found = parse_digits(number)
        if found is None:
            raise self._value_error(name, "no number of GPUs")
        return found

    def check_gpus(self, gpus: int, name: str) -> int:
        if gpus > _MAX_GPUS:
            raise self._value_error(name, f"more than {_MAX_GPUS} GPUs on a node")
        return gpus

    def check_memory(self) -> None:
        for name in ("mem", "mem-per-cpu"):
            if _TOO_LONG.search(self._script.value(name) or ""):
                raise self._value_error(name, "no size of memory")

    def parts(self, name: str) -> list[str]:
        return [part for part in (self._script.value(name) or "").split(",") if part]

    def names(self, name: str) -> list[str]:
        value = self._script.value(name)
        try:
            return expand_hostlist(value) if value and "/" not in value else []
        except ValueError as error:
            raise self._value_error(name, "no list of nodes", str(error)) from None

    def seconds(self) -> float | None:
        try:
            seconds = limit_seconds(self._script.value("time"))
        except (ValueError, OverflowError):
            raise self._value_error("time", "no time limit") from None
        if seconds is not None and seconds > 60 * _MAX_MINUTES:
            raise self._value_error("time", f"longer than {_MAX_MINUTES} minutes")
        return seconds

    def origin(self, *names: str) -> str:
        """Where the last said of these options stands."""
        return f"{self._source}:{self._script.line(*names)}"

    def _value_error(self, name: str, what: str, hint: str | None = None) -> JobError:
        text = printable_text(f"{self._script.value(name)!s:.40}")
        return JobError(f"--{name}={text} is {what}", self.origin(name), hint)
