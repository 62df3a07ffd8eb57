"""The number of tasks that an srun starts, and the nodes of its allocation that they run on. The rules are srun's own,
as Slurm 22.05 shows them.

Standard library only: travels inside agent.pyz (Python >= 3.8).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import groupby

from worldsize.common.named_tuple import NamedTuple
from worldsize.common.numbers import parse_digits
from worldsize.plan.hostlist import expand_hostlist

MAX_STEP_TASKS = 1_000_000
"""The maximum number of tasks of one step."""

TYPE_CHECKING = False
if TYPE_CHECKING:
    Options = Mapping[str, "str | None"]


class Allocation(NamedTuple):
    """The nodes that a batch script was given, and the number of CPUs of each."""

    hosts: tuple[str, ...]
    cpus: int


class StepSize(NamedTuple):
    """The size of a step. `nodes` are indexes of hosts of the allocation, `tasks` the number of tasks on each of them,
    and `warnings` those that srun prints, in its words."""

    nodes: tuple[int, ...]
    tasks: tuple[int, ...]
    warnings: tuple[str, ...] = ()

    @property
    def total(self) -> int:
        return sum(self.tasks)


class StepCount(NamedTuple):
    """The number of nodes and tasks of a step, without the choice of nodes. `per_node` is the number of tasks of each
    node; None if the tasks are shared out."""

    nodes: int
    tasks: int
    per_node: int | None
    warnings: tuple[str, ...]


def step_size(options: Options, environ: Mapping[str, str], allocation: Allocation) -> StepSize:
    """Return the StepSize of an srun: the nodes of `allocation` that its step runs on, and the number of tasks on each.
    `options` are srun's own by long names. Options that are missing are taken from the batch script's environment,
    `environ`.

    Raise ValueError, in srun's words, for options that srun refuses.
    """
    count = step_count(options, environ, allocation)
    chosen = _choose_nodes(options, count.nodes, allocation)
    return StepSize(chosen, tasks_per_node(count.tasks, count.nodes, count.per_node), count.warnings)


def step_count(options: Options, environ: Mapping[str, str], allocation: Allocation) -> StepCount:
    """Return the StepCount of an srun: only the numbers of nodes and tasks that `step_size` determines, in a time that
    does not depend on how large they are. Raise ValueError as `step_size` does."""
    warnings: list[str] = []
    inherited = environ.get("SLURM_NTASKS") or environ.get("SLURM_NPROCS") or None
    tasks = _parse_number(options.get("ntasks") or inherited, "ntasks")
    nodes = _node_count(options, environ, allocation)
    per_node = _parse_number(options.get("ntasks-per-node"), "ntasks-per-node")
    if tasks is None:
        tasks = nodes * (per_node or 1)
    if tasks > MAX_STEP_TASKS:
        raise ValueError(f"error: worldsize: {tasks} tasks are more than the limit of {MAX_STEP_TASKS} for a step")
    if nodes > tasks:
        warnings.append(f"Warning: can't run {tasks} processes on {nodes} nodes, setting nnodes to {tasks}")
        nodes = tasks
    if per_node and nodes * per_node != tasks and "ntasks" not in options:
        warnings.append(
            f"Warning: can't honor --ntasks-per-node set to {per_node} which doesn't match the requested tasks {tasks} "
            f"with the number of requested nodes {nodes}. Ignoring --ntasks-per-node."
        )
        per_node = None
    if nodes > len(allocation.hosts):
        raise ValueError(f"error: Only allocated {len(allocation.hosts)} nodes asked for {nodes}")
    return StepCount(nodes, tasks, per_node, tuple(warnings))


def _node_count(options: Options, environ: Mapping[str, str], allocation: Allocation) -> int:
    text = options.get("nodes")
    if text is None and options.get("nodelist") and "ntasks" not in options:
        return max(
            len(_expand_names(options["nodelist"])), _parse_number(environ.get("SLURM_NNODES") or "1", "nodes") or 1
        )
    given = _parse_number((text or "").split("-")[0] or environ.get("SLURM_NNODES") or None, "nodes")
    return given or len(allocation.hosts)


def _parse_number(text: str | None, name: str) -> int | None:
    if text is None:
        return None
    number = parse_digits(text.strip())
    if not number:
        raise ValueError(f'error: Invalid numeric value "{text:.40}" for --{name}.')
    return number


def _expand_names(text: str | None) -> list[str]:
    try:
        return expand_hostlist(text or "")
    except ValueError as error:
        raise ValueError(f"error: {error}") from None


def _choose_nodes(options: Options, nodes: int, allocation: Allocation) -> tuple[int, ...]:
    """Return the sorted indexes, in the hosts of `allocation`, of the `nodes` nodes that a step runs on. The nodes that
    the option `nodelist` names are chosen first, then the other nodes in their order. `relative` leaves out the first
    nodes, and `exclude` those that it names. Raise ValueError if there are not enough nodes, or for an invalid option.
    """
    hosts = allocation.hosts
    wanted = dict.fromkeys(_expand_names(options.get("nodelist")))
    unwanted, there = set(_expand_names(options.get("exclude"))), set(hosts)
    strangers = [name for name in wanted if name not in there]
    if strangers:
        raise ValueError(
            f"error: Unable to create step: Requested node configuration is not available ({strangers[0]})"
        )
    start = parse_digits((options.get("relative") or "0").strip())
    if start is None:
        raise ValueError('error: Invalid numeric value "{!s:.40}" for --relative.'.format(options.get("relative")))
    free = [index for index, host in enumerate(hosts) if index >= start and host not in unwanted]
    if nodes > len(free):
        raise ValueError(f"error: Only allocated {len(free)} nodes asked for {nodes}")
    first = [index for index in free if hosts[index] in wanted]
    others = [index for index in free if hosts[index] not in wanted]
    return tuple(sorted((first + others)[:nodes]))


def tasks_per_node(tasks: int, nodes: int, per_node: int | None = None) -> tuple[int, ...]:
    """Return the number of tasks on each of `nodes` nodes that share `tasks` tasks: up to `per_node` tasks on each node
    in order, or shares that are as equal as possible."""
    if per_node is not None and tasks <= nodes * per_node:
        return tuple(min(per_node, max(0, tasks - index * per_node)) for index in range(nodes))
    share, left = divmod(tasks, nodes)
    return tuple(share + (index < left) for index in range(nodes))


def task_node_indexes(size: StepSize, distribution: str | None) -> list[int]:
    """Return a list with the index in `size.nodes` of the node of each task of a step. `distribution` is the value of
    srun's option of that name: block, cyclic or plane=N (only its first part is used)."""
    kind = (distribution or "block").split(":")[0].split(",")[0].strip().lower()
    width = 1 if kind == "cyclic" else max(size.tasks)
    if kind.startswith("plane="):
        width = parse_digits(kind[6:]) or width
    left = list(size.tasks)
    found: list[int] = []
    while any(left):
        for place, count in enumerate(left):
            found += [place] * min(width, count)
            left[place] -= min(width, count)
    return found


def format_counts(counts: Sequence[int]) -> str:
    """Format `counts`, one number for each node, as Slurm does: `2(x3),1` for 2, 2, 2, 1."""
    runs = [(count, len(list(equal))) for count, equal in groupby(counts)]
    return ",".join(f"{count}(x{times})" if times > 1 else str(count) for count, times in runs)
