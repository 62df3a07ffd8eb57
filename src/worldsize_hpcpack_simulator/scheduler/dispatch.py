"""The choice of the job's tasks that start now, and of the job's cores on which they run."""

from __future__ import annotations

from collections.abc import Sequence

from worldsize_hpcpack_simulator.scheduler import placement
from worldsize_hpcpack_simulator.scheduler.jobs import LIVE, Job, Task


def take_cores(job: Job, rooms: Sequence[placement.NodeCapacity]) -> None:
    """Allocate further free cores of the nodes `rooms` to the running job, up to its maximum."""
    more = placement.allocate(job, rooms) or {}
    for name, cores in more.items():
        job.held[name] = max(cores, job.held.get(name, 0))
    job.nodes = list(dict.fromkeys([*job.nodes, *job.held]))


def release_cores(job: Job) -> None:
    """Release the running job's cores on nodes where none of its tasks runs, so that other jobs can get them, if no
    task of the job waits and the job may shrink."""
    waits = any(task.state in ("Queued", "Configuring") for task in job.runnable_tasks())
    if job.flag("CanShrink") and not job.flag("RunUntilCanceled") and not waits:
        used = cores_in_use(job)
        job.held = {name: job.held[name] for name in job.held if name in used}


def dispatch(job: Job, ready: Sequence[Task], rooms: Sequence[placement.NodeCapacity]) -> None:
    """Assign cores to those of the `ready` tasks that fit into the job's free cores, and make them enter the state
    Dispatching. Tasks that require certain nodes come first."""
    named, used = {room.name: room for room in rooms}, cores_in_use(job)
    for task in sorted(ready, key=lambda task: not task.value("RequiredNodes")):
        free = {name: cores - used.get(name, 0) for name, cores in job.held.items() if named[name].up}
        place = placement.allocate_task(task, job, named, free)
        if place is not None:
            for name, cores in place.items():
                used[name] = used.get(name, 0) + cores
            task.nodes, task.place = list(place), place
            task.enter_state("Dispatching")


def cores_in_use(job: Job) -> dict[str, int]:
    """Return a mapping of each node's name to the number of its cores that the job's tasks use now."""
    used: dict[str, int] = {}
    for task in job.runnable_tasks():
        if task.state in (*LIVE, "Finishing"):
            for name, cores in task.place.items():
                used[name] = used.get(name, 0) + cores
    return used


def may_start(task: Task, job: Job) -> bool:
    """Return whether all tasks of the job that `task` names in its property DependsOn have finished."""
    names = {name.lower() for name in task.names("DependsOn")}
    return all(other.state == "Finished" for other in job.tasks.values() if other.value("Name").lower() in names)
