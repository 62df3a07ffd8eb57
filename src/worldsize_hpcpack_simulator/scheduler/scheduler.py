"""The job scheduler: each `step` takes every job as far as it can go now."""

from __future__ import annotations

import time

from worldsize_hpcpack_simulator.catalog import PRIORITIES
from worldsize_hpcpack_simulator.options import Options
from worldsize_hpcpack_simulator.scheduler import placement
from worldsize_hpcpack_simulator.scheduler.cluster import Cluster, Node
from worldsize_hpcpack_simulator.scheduler.dispatch import dispatch, grow, released, shrink
from worldsize_hpcpack_simulator.scheduler.jobs import LIVE, Job, Task
from worldsize_hpcpack_simulator.scheduler.sweep import expand, sum_up
from worldsize_hpcpack_simulator.scheduler.tasks import Tasks
from worldsize_hpcpack_simulator.scheduler.validation import problem
from worldsize_hpcpack_simulator.wire import moment_of

_NEXT = {"Submitted": "Validating", "ExternalValidation": "Queued"}


class Scheduler(Tasks):
    """New jobs get the next id."""

    def __init__(self, cluster: Cluster, options: Options) -> None:
        super().__init__(cluster, options)
        self.next_job = 1

    def add(self, owner: str, values: dict[str, str]) -> Job:
        job = Job(self.next_job, owner, values)
        self.jobs[job.number] = job
        self.next_job += 1
        return job

    def step(self) -> bool:
        """Whether something will be due before anything else happens."""
        for job in sorted(self.active.values(), key=_turn):  # what others give up now, the first of the queue gets
            self._step(job)
            if job.over:
                del self.active[job.number]
        for node in self.cluster.nodes.values():
            if node.state == "Draining" and not self.busy(node):
                node.become("Offline")
        return any(_restless(job) for job in self.active.values())

    def busy(self, node: Node) -> bool:
        """Whether tasks run there."""
        tasks = (task for job in self.active.values() for task in job.runnable())
        return any(node.name in task.nodes and task.state in LIVE for task in tasks)

    def rooms(self) -> list[placement.Room]:
        """All nodes with what no job has of them."""
        held = [job.held for job in self.active.values()]
        return [node.room(sum(each.get(node.name, 0) for each in held)) for node in self.cluster.nodes.values()]

    def _due(self, item: Job | Task) -> bool:
        return time.monotonic() - item.since >= self.options.delay

    def _step(self, job: Job) -> None:
        self._pass_on(job)
        if job.state == "Running":
            self._run(job)
        elif not self._due(job):
            return
        elif job.state in _NEXT:
            self._advance(job, _NEXT[job.state])
        elif job.state == "Validating":
            self._validate(job)
        elif job.state == "Queued":
            self._begin(job)
        elif job.state in ("Finishing", "Canceling"):
            self._close(job)

    def _pass_on(self, job: Job) -> None:
        """Tasks on their way through states that they only pass."""
        for task in job.runnable():
            if not self._due(task):
                continue
            if task.state == "Finishing":
                task.become(task.ending)
            elif task.state == "Configuring" and job.state == "Running":
                task.become("Queued")
            elif task.state == "Dispatching":
                self.start(task, job)
        for task in job.tasks.values():
            sum_up(task)

    def _advance(self, job: Job, state: str) -> None:
        job.become(state)
        if state == "Queued":
            expand(job)
        for task in [*job.tasks.values(), *job.runnable()]:
            if task.state in ("Submitted", "Validating"):
                task.become(state)

    def _validate(self, job: Job) -> None:
        why = problem(job, self.rooms(), self.jobs)
        if not why:
            job.become("ExternalValidation")
            return
        for task in job.tasks.values():
            if not task.over:
                task.become("Failed", why)
        job.become("Failed", why)

    def _begin(self, job: Job) -> None:
        """It starts when all that it needs at least is free. What was requeued may not fit the cluster any more."""
        why = problem(job, self.rooms(), self.jobs) if job.requeues else ""
        if why:
            self.end_job(job, "Failed", why)
            return
        job.pending = self._waits(job)
        if job.pending:
            return
        held = placement.allocate(job, self.rooms())
        if held is None:
            job.pending = "Not enough of the nodes that the job may use are available."
            return
        job.held, job.nodes = held, list(held)
        job.become("Running")

    def _waits(self, job: Job) -> str:
        if job.value("HoldUntil") and moment_of(job.value("HoldUntil")) > time.time():
            return "The job is held until %s." % job.value("HoldUntil")
        for parent in job.names("ParentJobIds"):
            if not self.jobs[int(parent)].over:
                return "The job waits for job %s." % parent
        return ""

    def _run(self, job: Job) -> None:
        if _late(job):
            self.end_job(job, "Failed", "The job ran for longer than its limit of %d seconds." % job.seconds)
            return
        for task in job.runnable():
            if task.state == "Running" and _late(task):
                self.end_task(task, "Failed", "The task ran for longer than its limit of %d seconds." % task.seconds)
        failed = [task for task in job.runnable() if task.state == "Failed"]
        for task in failed:
            if job.flag("FailOnTaskFailure") or task.flag("FailJobOnFailure"):
                self.end_job(job, "Failed", _blamed(task))
                return
        ready = [task for task in job.runnable() if task.state == "Queued" and self._due(task) and released(task, job)]
        if ready:
            grow(job, self.rooms())
            dispatch(job, ready, self.rooms())
        else:
            shrink(job)
        if not job.flag("RunUntilCanceled") and all(task.over for task in job.runnable()):
            job.ending = "Failed" if failed else "Finished"
            job.become("Finishing", _blamed(failed[0]) if failed else "")

    def end_job(self, job: Job, state: str, message: str, forced: bool = False) -> None:
        """All its tasks end; it becomes `state` when they have. Queued: it runs again then."""
        job.ending = state
        word = "Finished" if state == "Finished" else "Failed"
        for task in job.runnable():
            self.end_task(task, word, message or "The job was canceled.", forced)
        for task in job.tasks.values():
            if task.sweeps and not task.over:
                task.become("Finished" if state == "Finished" else "Canceled", message)
        job.become("Canceling" if state in ("Canceled", "Queued") else "Finishing", message)

    def _close(self, job: Job) -> None:
        if all(task.over for task in job.runnable()):
            job.held = {}
            if job.ending == "Queued":
                self.requeue(job)
            else:
                job.become(job.ending)

    def requeue(self, job: Job) -> None:
        """What has finished stays so, and what was canceled before it ran; everything else runs again."""
        for task in dict.fromkeys([*job.tasks.values(), *job.runnable()]):
            if task.state != "Finished" and not task.dismissed:
                task.requeues += 1
                task.renew()
                task.become("Queued")
        job.renew()
        job.requeues += 1
        job.become("Queued")
        expand(job)
        self.active[job.number] = job


def _turn(job: Job) -> tuple[bool, int, int]:
    return job.state == "Queued", -PRIORITIES.index(job.value("Priority")), job.number


def _restless(job: Job) -> bool:
    if job.state not in ("Queued", "Running"):
        return True
    return any(task.state in ("Queued", "Configuring", "Dispatching", "Finishing") for task in job.runnable())


def _late(item: Job | Task) -> bool:
    return bool(item.seconds) and item.started is not None and time.time() - item.started > item.seconds


def _blamed(task: Task) -> str:
    return "Task %s failed: %s" % (task.key, task.message)
