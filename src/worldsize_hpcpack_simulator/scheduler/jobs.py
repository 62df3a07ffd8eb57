"""Jobs and tasks as the head node keeps them: what was set, and what has become of them."""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping

from worldsize_hpcpack_simulator.catalog import JOB, TASK, Property, canonical_name
from worldsize_hpcpack_simulator.wire import date_text, names_in

OVER = ("Finished", "Failed", "Canceled")
LIVE = ("Dispatching", "Running", "Canceling")
"""A task in one of these has processes on a node, or may have."""

UNIT_LIMITS = {"Core": "Cores", "Socket": "Sockets", "Node": "Nodes", "GPU": "GPUs"}


class WorkItem:
    """What jobs and tasks have in common. Times are Unix seconds, None: not yet; `since` is of the monotonic clock."""

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
        """0 where nothing is set."""
        return int(self.value(name) or 0)

    def flag(self, name: str) -> bool:
        return self.value(name) == "True"

    @property
    def seconds(self) -> int:
        """Its time limit; 0: none."""
        return self.amount("RuntimeSeconds")

    def names(self, name: str) -> list[str]:
        return names_in(self.value(name))

    @property
    def is_over(self) -> bool:
        return self.state in OVER

    def touch(self) -> None:
        self.changed = time.time()

    def enter_state(self, state: str, message: str = "") -> None:
        """Enters a state, at its own time; `message` says why, and replaces what was said before."""
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
        """What the last run of it has left is forgotten."""
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
    ending     what it will be once its processes have ended
    dismissed  it was cancelled before it ran, and stays so
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
        """What a node calls this run of it."""
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
        """Return all properties, "" where there is no value yet."""
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
    """A job with its tasks, by number. `held` counts the cores that it has on each node."""

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
        """Yield the tasks that run themselves: basic ones and subtasks."""
        for task in self.tasks.values():
            if task.is_sweep:
                yield from task.subtasks.values()
            else:
                yield task

    def renew(self) -> None:
        super().renew()
        self.pending = self.ending = ""

    def to_properties(self) -> dict[str, str]:
        """Return all properties, "" where there is no value yet; what only the head node knows of others is left
        out."""
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
    """Return the wanted properties in the order asked for, by their own names; all where none is named."""
    shown = item.to_properties()
    names = [canonical_name(name, shown) for name in wanted] or list(shown)
    return {name: shown[name] for name in names if name is not None}
