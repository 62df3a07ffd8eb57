"""Jobs and tasks in the memory of the head node: their properties and their state."""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping

from worldsize_hpcpack_simulator.catalog import JOB, TASK, Property, canonical_name
from worldsize_hpcpack_simulator.wire import date_text, names_in

OVER = ("Finished", "Failed", "Canceled")
LIVE = ("Dispatching", "Running", "Canceling")
"""The states in which a task has processes on a node, or may have."""

UNIT_LIMITS = {"Core": "Cores", "Socket": "Sockets", "Node": "Nodes", "GPU": "GPUs"}


class WorkItem:
    """The common base of jobs and tasks. Times are in Unix seconds, None if the event has not occurred; `since` is a
    time of the monotonic clock."""

    table: Mapping[str, Property]

    def __init__(self, values: dict[str, str]) -> None:
        self.values = values
        self.environ: dict[str, str] = {}
        self.custom: dict[str, str] = {}
        self.state = self.previous = "Configuring"
        self.message = ""
        self.requeues = 0
        self.created = self.changed = time.time()
        self.since = time.monotonic()
        self.submitted: float | None = None
        self.started: float | None = None
        self.ended: float | None = None
        self.nodes: list[str] = []

    def value(self, name: str) -> str:
        return self.values.get(name) or self.table[name].default

    def amount(self, name: str) -> int:
        """Return the value of the job's or task's property `name` as a number; 0 if it is not set."""
        return int(self.value(name) or 0)

    def flag(self, name: str) -> bool:
        return self.value(name) == "True"

    @property
    def seconds(self) -> int:
        """The time limit in seconds; 0 means none."""
        return self.amount("RuntimeSeconds")

    def names(self, name: str) -> list[str]:
        return names_in(self.value(name))

    @property
    def is_over(self) -> bool:
        return self.state in OVER

    def touch(self) -> None:
        self.changed = time.time()

    def enter_state(self, state: str, message: str = "") -> None:
        """Make the job or task enter a state, and record the time. `message` is the reason, and replaces the former
        message unless it is ""."""
        self.previous, self.state = self.state, state
        self.since = time.monotonic()
        self.touch()
        if message:
            self.message = message
        if state == "Submitted":
            self.submitted = self.changed
        elif state == "Running":
            self.started = self.changed
        if self.is_over:
            self.ended = self.changed

    def renew(self) -> None:
        """Reset the message, the start and end times and the nodes of the job's or task's last run, before it runs
        again."""
        self.message = ""
        self.started = self.ended = None
        self.nodes = []

    def _common_properties(self) -> dict[str, str]:
        return {
            "State": self.state,
            "PreviousState": self.previous,
            "ErrorMessage": self.message,
            "AllocatedNodes": ",".join(self.nodes),
            "RequeueCount": str(self.requeues),
            "CreateTime": date_text(self.created),
            "SubmitTime": date_text(self.submitted),
            "StartTime": date_text(self.started),
            "EndTime": date_text(self.ended),
            "ChangeTime": date_text(self.changed),
            "HasRuntime": str(bool(self.value("RuntimeSeconds"))),
        }


class Task(WorkItem):
    """A basic task, the master of a parametric sweep, or one of its subtasks (`instance` > 0).

    place      the cores that it has on each of its nodes
    ending     the state that it enters once its processes have ended
    dismissed  whether it was cancelled before it ran, which a requeue does not change
    """

    table = TASK

    def __init__(self, job: int, number: int, values: dict[str, str], instance: int = 0) -> None:
        super().__init__(values)
        self.job, self.number, self.instance = job, number, instance
        self.subtasks: dict[int, Task] = {}
        self.exit_code: int | None = None
        self.output = ""
        self.place: dict[str, int] = {}
        self.ending = ""
        self.dismissed = False

    @property
    def order(self) -> str:
        """The key under which a node knows this run of the task."""
        return f"{self.key}-{self.requeues}"

    @property
    def cores(self) -> int:
        return sum(self.place.values())

    @property
    def key(self) -> str:
        text = f"{self.job}.{self.number}"
        return f"{text}.{self.instance}" if self.instance else text

    @property
    def is_sweep(self) -> bool:
        return self.value("Type") == "ParametricSweep" and not self.instance

    def renew(self) -> None:
        super().renew()
        self.exit_code, self.output, self.place, self.ending, self.dismissed = None, "", {}, "", False

    def to_properties(self) -> dict[str, str]:
        """Return all properties of the task by name, as the API sends them, "" for those without a value yet."""
        own = {
            "TaskId": self.key,
            "ParentJobId": str(self.job),
            "JobTaskId": str(self.number),
            "InstanceId": str(self.instance),
            "ExitCode": "" if self.exit_code is None else str(self.exit_code),
            "Output": self.output,
            "AllocatedCoreIds": "",
            "Id": str(self.number),
            "IsServiceConcluded": "False",
        }
        return {**own, **self._common_properties(), **{name: self.value(name) for name in self.table}}


class Job(WorkItem):
    """A job with its tasks, by number. `held` contains the number of cores that it has on each node."""

    table = JOB

    def __init__(self, number: int, owner: str, values: dict[str, str]) -> None:
        super().__init__(values)
        self.number, self.owner = number, owner
        self.tasks: dict[int, Task] = {}
        self.next_task = 1
        self.pending = ""
        self.ending = ""
        self.held: dict[str, int] = {}

    def add(self, values: dict[str, str]) -> Task:
        task = Task(self.number, self.next_task, values)
        self.tasks[task.number] = task
        self.next_task += 1
        self.touch()
        return task

    def runnable_tasks(self) -> Iterator[Task]:
        """Yield the tasks of the job that run themselves: basic tasks, and the subtasks of sweeps."""
        for task in self.tasks.values():
            if task.is_sweep:
                yield from task.subtasks.values()
            else:
                yield task

    def renew(self) -> None:
        super().renew()
        self.pending = self.ending = ""

    def to_properties(self) -> dict[str, str]:
        """Return all properties of the job by name, as the API sends them, "" for those without a value yet. Values
        that depend on other jobs, which only the head node knows, are left empty."""
        own = {
            "Id": str(self.number),
            "PendingReason": self.pending,
            "NextTaskId": str(self.next_task),
            "ChildJobIds": "",
        }
        values = {name: self.value(name) for name in self.table}
        return {
            **own,
            **self._common_properties(),
            **values,
            "Owner": self.owner,
            "UserName": self.values.get("UserName") or self.owner,
        }


def select_properties(item: Job | Task, wanted: list[str]) -> dict[str, str]:
    """Return the properties of a job or task that `wanted` names (in any letter case), in that order, under their own
    names; all properties if none is wanted."""
    shown = item.to_properties()
    names = [canonical_name(name, shown) for name in wanted] or list(shown)
    return {name: shown[name] for name in names if name is not None}
