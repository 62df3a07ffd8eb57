"""The placement of jobs: pure functions that compute the nodes and cores of a job from its requests and the nodes'
capacities."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple

from worldsize_hpcpack_simulator.scheduler.jobs import UNIT_LIMITS, Job, Task


class NodeCapacity(NamedTuple):
    """A node as the scheduler sees it. `free` is the number of cores that no job has; `up` means that it accepts new
    work."""

    name: str
    cores: int
    sockets: int
    gpus: int
    free: int
    up: bool
    groups: tuple[str, ...] = ()

    def unit(self, kind: str) -> int:
        """Return the number of the node's cores in one unit of this kind: "Core", "Socket", "Node" or "GPU"."""
        if kind == "Node":
            return self.cores
        if kind == "Socket":
            return max(1, self.cores // self.sockets)
        return max(1, self.cores // self.gpus) if kind == "GPU" and self.gpus else 1

    def units(self, kind: str, cores: int) -> int:
        """Return the number of units of this kind ("Core", "Socket", "Node", "GPU") in `cores` cores of the node."""
        if kind == "GPU" and not self.gpus:
            return 0
        return cores // self.unit(kind)


def unit_limits(item: Job | Task, kind: str) -> tuple[int, int]:
    """Return the smallest and the largest number of units (`kind`: "Core", "Socket", "Node", "GPU") that the job or
    task requests with its Min and Max properties, at least 1."""
    least, most = item.amount("Min" + UNIT_LIMITS[kind]), item.amount("Max" + UNIT_LIMITS[kind])
    return max(1, least), max(1, least, most)


def job_limits(job: Job) -> tuple[int, int]:
    """Return the smallest and the largest number of units that a job needs, in units of its UnitType. They are computed
    from its tasks if the job leaves that to the scheduler."""
    kind = job.value("UnitType")
    least, most = unit_limits(job, kind)
    sizes = [unit_limits(task, kind) for task in job.runnable_tasks()] or [(1, 1)]
    if job.flag("AutoCalculateMin"):
        least = max(size[0] for size in sizes)
    if job.flag("AutoCalculateMax"):
        most = max(least, sum(size[1] for size in sizes))
    return least, max(least, most)


def eligible_nodes(job: Job, rooms: Sequence[NodeCapacity]) -> list[NodeCapacity]:
    """Return those of the nodes `rooms` that the job may use, up or not: requested, in its groups, and not excluded."""
    requested = {name.lower() for name in job.names("RequestedNodes")}
    excluded = {name.lower() for name in job.names("ExcludedNodes")}
    groups = {name.lower() for name in job.names("NodeGroups")}
    every = job.value("NodeGroupOp") == "Intersect"
    found = []
    for room in rooms:
        own = {name.lower() for name in room.groups}
        in_groups = not groups or (groups <= own if every else bool(groups & own))
        if in_groups and room.name.lower() not in excluded and (not requested or room.name.lower() in requested):
            found.append(room)
    return found


def required_units(job: Job, tasks: Sequence[Task]) -> dict[str, int]:
    """Return a mapping of node name, in lower case, to the number of units that `tasks` require on that node by its
    name. Tasks that require the same node may run one after the other."""
    needs: dict[str, int] = {}
    for task in tasks:
        names = [name.lower() for name in task.names("RequiredNodes")]
        least, _ = unit_limits(task, job.value("UnitType"))
        for name in names:
            needs[name] = max(needs.get(name, 0), -(-least // len(names)))
    return needs


def allocate(job: Job, rooms: Sequence[NodeCapacity]) -> dict[str, int] | None:
    """Return a mapping of node name to the number of cores that the job gets now; None if too few are free. Cores that
    the job already has count as free."""
    kind, exclusive = job.value("UnitType"), job.flag("IsExclusive")
    least, most = job_limits(job)
    needs = required_units(job, [task for task in job.runnable_tasks() if not task.is_over])
    able: dict[str, int] = {}
    for room in sorted(
        (each for each in eligible_nodes(job, rooms) if each.up), key=lambda room: room.name not in job.held
    ):
        free = room.free + job.held.get(room.name, 0)
        able[room.name] = room.units(kind, free) if free == room.cores or not exclusive else 0
    units = {name: needs[name.lower()] for name in able if name.lower() in needs}
    if len(units) < len(needs) or any(able[name] < count for name, count in units.items()):
        return None
    left = max(0, most - sum(units.values()))
    for name, count in able.items():
        more = min(count - units.get(name, 0), left)
        left -= more
        units[name] = units.get(name, 0) + more
    cores = {room.name: room.cores if exclusive else units.get(room.name, 0) * room.unit(kind) for room in rooms}
    return {name: cores[name] for name in able if units[name]} if sum(units.values()) >= least else None


def impossible_reason(job: Job, rooms: Sequence[NodeCapacity]) -> str:
    """Return the reason why a cluster with the nodes `rooms` can never run the job; "" if it can."""
    known = {room.name.lower() for room in rooms}
    wanted = [
        *job.names("RequestedNodes"),
        *(name for task in job.runnable_tasks() for name in task.names("RequiredNodes")),
    ]
    for name in wanted:
        if name.lower() not in known:
            return f"The node {name} does not exist in this cluster."
    may = eligible_nodes(job, rooms)
    needs = required_units(job, list(job.runnable_tasks()))
    outside = set(needs) - {room.name.lower() for room in may}
    if outside:
        return f"The task requires node {sorted(outside)[0]}, which is not among the nodes of the job."
    kind = job.value("UnitType")
    least, limit = job_limits(job)
    if sum(needs.values()) > limit:
        return f"The job may have {limit} {_unit_words(kind, limit)}, and its tasks require more by name."
    most = sum(room.units(kind, room.cores) for room in may)
    if least > most:
        words = (least, _unit_words(kind, least), most)
        return "The job needs at least {} {}, and the nodes that it may use have {}.".format(*words)
    return ""


def _unit_words(kind: str, count: int) -> str:
    return (kind if kind == "GPU" else kind.lower()) + ("" if count == 1 else "s")


def allocate_task(
    task: Task, job: Job, rooms: Mapping[str, NodeCapacity], free: Mapping[str, int]
) -> dict[str, int] | None:
    """Return a mapping of node name to the number of cores that a task gets from the `free` cores of its job; None if
    too few of them are free."""
    kind = job.value("UnitType")
    least, most = unit_limits(task, kind)
    named = [name.lower() for name in task.names("RequiredNodes")]
    order = [name for name in free if not named or name.lower() in named]
    chosen: dict[str, int] = {}
    units = 0
    for name in order:
        count = min(rooms[name].units(kind, free[name]), most - units)
        if count > 0:
            chosen[name] = count * rooms[name].unit(kind)
            units += count
    return chosen if units >= least and set(named) <= {name.lower() for name in chosen} else None
