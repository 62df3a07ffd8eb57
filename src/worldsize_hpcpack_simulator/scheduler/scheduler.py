"""The job scheduler. Each `step` advances every job as far as possible at that time."""

from __future__ import annotations

import time

from worldsize_hpcpack_simulator.catalog import PRIORITIES
from worldsize_hpcpack_simulator.options import SimulatorOptions
from worldsize_hpcpack_simulator.scheduler import placement
from worldsize_hpcpack_simulator.scheduler.cluster import Cluster, SimulatedNode
from worldsize_hpcpack_simulator.scheduler.dispatch import dispatch, may_start, release_cores, take_cores
from worldsize_hpcpack_simulator.scheduler.jobs import LIVE, Job, Task
from worldsize_hpcpack_simulator.scheduler.sweep import expand_sweeps, update_master
from worldsize_hpcpack_simulator.scheduler.tasks import TaskRunner
from worldsize_hpcpack_simulator.scheduler.validation import find_problem
from worldsize_hpcpack_simulator.wire import parse_date

_NEXT = {"Submitted": "Validating", "ExternalValidation": "Queued"}


class Scheduler(TaskRunner):
    """The scheduler of the cluster's jobs. New jobs get the next id."""

    def __init__(self, cluster: Cluster, options: SimulatorOptions) -> None:
        super().__init__(cluster, options)
        self.next_job = 1

    def add(self, owner: str, values: dict[str, str]) -> Job:
        job = Job(self.next_job, owner, values)
        self.jobs[job.number] = job
        self.next_job += 1
        return job

    def step(self) -> bool:
        """Advance every active job as far as possible now. Return whether another step will be due soon, even if
        nothing else happens."""
        for job in sorted(
            self.active.values(), key=_queue_position
        ):  # the first job of the queue gets what others release now
            self._step(job)
            if job.is_over:
                del self.active[job.number]
        for node in self.cluster.nodes.values():
            if node.state == "Draining" and not self.is_busy(node):
                node.enter_state("Offline")
        return any(_is_changing(job) for job in self.active.values())

    def is_busy(self, node: SimulatedNode) -> bool:
        """Return whether a task of any job runs on the node."""
        tasks = (task for job in self.active.values() for task in job.runnable_tasks())
        return any(node.name in task.nodes and task.state in LIVE for task in tasks)

    def node_capacities(self) -> list[placement.NodeCapacity]:
        """Return the NodeCapacity of each node of the cluster, with the number of cores that no job has."""
        held = [job.held for job in self.active.values()]
        return [node.capacity(sum(each.get(node.name, 0) for each in held)) for node in self.cluster.nodes.values()]

    def _is_due(self, item: Job | Task) -> bool:
        return time.monotonic() - item.since >= self.options.delay

    def _step(self, job: Job) -> None:
        self._advance_tasks(job)
        if job.state == "Running":
            self._run(job)
        elif not self._is_due(job):
            return
        elif job.state in _NEXT:
            self._advance(job, _NEXT[job.state])
        elif job.state == "Validating":
            self._validate(job)
        elif job.state == "Queued":
            self._begin(job)
        elif job.state in ("Finishing", "Canceling"):
            self._close(job)

    def _advance_tasks(self, job: Job) -> None:
        """Advance the tasks of the job that are in states that they only pass through (Finishing, Configuring,
        Dispatching) to the next state, and update the states of sweeps."""
        for task in job.runnable_tasks():
            if not self._is_due(task):
                continue
            if task.state == "Finishing":
                task.enter_state(task.ending)
            elif task.state == "Configuring" and job.state == "Running":
                task.enter_state("Queued")
            elif task.state == "Dispatching":
                self.start(task, job)
        for task in job.tasks.values():
            update_master(task)

    def _advance(self, job: Job, state: str) -> None:
        job.enter_state(state)
        if state == "Queued":
            expand_sweeps(job)
        for task in [*job.tasks.values(), *job.runnable_tasks()]:
            if task.state in ("Submitted", "Validating"):
                task.enter_state(state)

    def _validate(self, job: Job) -> None:
        why = find_problem(job, self.node_capacities(), self.jobs)
        if not why:
            job.enter_state("ExternalValidation")
            return
        for task in job.tasks.values():
            if not task.is_over:
                task.enter_state("Failed", why)
        job.enter_state("Failed", why)

    def _begin(self, job: Job) -> None:
        """Make a queued job Running if the minimum of cores that it needs is free; otherwise record the reason why it
        waits. A requeued job fails if it no longer fits the cluster."""
        why = find_problem(job, self.node_capacities(), self.jobs) if job.requeues else ""
        if why:
            self.end_job(job, "Failed", why)
            return
        job.pending = self._waiting_reason(job)
        if job.pending:
            return
        held = placement.allocate(job, self.node_capacities())
        if held is None:
            job.pending = "Not enough of the nodes that the job may use are available."
            return
        job.held, job.nodes = held, list(held)
        job.enter_state("Running")

    def _waiting_reason(self, job: Job) -> str:
        if job.value("HoldUntil") and parse_date(job.value("HoldUntil")) > time.time():
            return f"The job is held until {job.value('HoldUntil')}."
        for parent in job.names("ParentJobIds"):
            if not self.jobs[int(parent)].is_over:
                return f"The job waits for job {parent}."
        return ""

    def _run(self, job: Job) -> None:
        if _is_over_limit(job):
            self.end_job(job, "Failed", f"The job ran for longer than its limit of {job.seconds} seconds.")
            return
        for task in job.runnable_tasks():
            if task.state == "Running" and _is_over_limit(task):
                self.end_task(task, "Failed", f"The task ran for longer than its limit of {task.seconds} seconds.")
        failed = [task for task in job.runnable_tasks() if task.state == "Failed"]
        for task in failed:
            if job.flag("FailOnTaskFailure") or task.flag("FailJobOnFailure"):
                self.end_job(job, "Failed", _failure_message(task))
                return
        ready = [
            task
            for task in job.runnable_tasks()
            if task.state == "Queued" and self._is_due(task) and may_start(task, job)
        ]
        if ready:
            take_cores(job, self.node_capacities())
            dispatch(job, ready, self.node_capacities())
        else:
            release_cores(job)
        if not job.flag("RunUntilCanceled") and all(task.is_over for task in job.runnable_tasks()):
            job.ending = "Failed" if failed else "Finished"
            job.enter_state("Finishing", _failure_message(failed[0]) if failed else "")

    def end_job(self, job: Job, state: str, message: str, forced: bool = False) -> None:
        """End all tasks of the job; `forced` means without grace. The job enters `state` when they have ended. If that
        is Queued, it runs again."""
        job.ending = state
        word = "Finished" if state == "Finished" else "Failed"
        for task in job.runnable_tasks():
            self.end_task(task, word, message or "The job was canceled.", forced)
        for task in job.tasks.values():
            if task.is_sweep and not task.is_over:
                task.enter_state("Finished" if state == "Finished" else "Canceled", message)
        job.enter_state("Canceling" if state in ("Canceled", "Queued") else "Finishing", message)

    def _close(self, job: Job) -> None:
        if all(task.is_over for task in job.runnable_tasks()):
            job.held = {}
            if job.ending == "Queued":
                self.requeue(job)
            else:
                job.enter_state(job.ending)

    def requeue(self, job: Job) -> None:
        """Make an ended job Queued again. Its tasks that have finished, or that were canceled before they ran, are
        unchanged; all others run again."""
        for task in dict.fromkeys([*job.tasks.values(), *job.runnable_tasks()]):
            if task.state != "Finished" and not task.dismissed:
                task.requeues += 1
                task.renew()
                task.enter_state("Queued")
        job.renew()
        job.requeues += 1
        job.enter_state("Queued")
        expand_sweeps(job)
        self.active[job.number] = job


def _queue_position(job: Job) -> tuple[bool, int, int]:
    return job.state == "Queued", -PRIORITIES.index(job.value("Priority")), job.number


def _is_changing(job: Job) -> bool:
    if job.state not in ("Queued", "Running"):
        return True
    return any(task.state in ("Queued", "Configuring", "Dispatching", "Finishing") for task in job.runnable_tasks())


def _is_over_limit(item: Job | Task) -> bool:
    return bool(item.seconds) and item.started is not None and time.time() - item.started > item.seconds


def _failure_message(task: Task) -> str:
    return f"Task {task.key} failed: {task.message}"
