"""The head node: the state from which requests are answered."""

from __future__ import annotations

import time
import uuid
from collections.abc import Mapping
from typing import Any, NamedTuple

from worldsize_hpcpack_simulator.api.auth import Users
from worldsize_hpcpack_simulator.api.paging import Pages
from worldsize_hpcpack_simulator.options import Account, SimulatorOptions
from worldsize_hpcpack_simulator.scheduler.cluster import Cluster, SimulatedNode
from worldsize_hpcpack_simulator.scheduler.jobs import Job, Task
from worldsize_hpcpack_simulator.scheduler.scheduler import Scheduler
from worldsize_hpcpack_simulator.wire import RequestRefused, iso_text


class Call(NamedTuple):
    """A request. `path` contains the values of the path's variables, `query` those of the query by lower-case name."""

    user: Account
    path: Mapping[str, str]
    query: Mapping[str, str]
    body: Any


class Answer(NamedTuple):
    """The answer to a request. `value` is sent as JSON; None means no content."""

    value: object = None
    status: int = 200
    headers: Mapping[str, str] = {}


DONE = Answer(status=204)


class Operation(NamedTuple):
    """An entry in the log of operations on the cluster. `entries` contains times and messages."""

    id: str
    name: str
    state: str
    operator: str
    node: str
    time: float
    entries: tuple[tuple[float, str], ...]

    def to_object(self, detailed: bool) -> dict[str, object]:
        told = [
            {"Message": text, "Severity": "Information", "Source": "Simulator", "CreateTime": iso_text(at)}
            for at, text in self.entries
        ]
        return {
            "Id": self.id,
            "Name": self.name,
            "State": self.state,
            "Operator": self.operator,
            "Node": self.node,
            "Cancelable": False,
            "UpdateTime": iso_text(self.time),
            **({"Entries": told} if detailed else {}),
        }


class HeadNode:
    """The head node, with its jobs, nodes and users, and the log of operations, the oldest first."""

    def __init__(self, options: SimulatorOptions, cluster: Cluster) -> None:
        self.options, self.cluster = options, cluster
        self.scheduler = Scheduler(cluster, options)
        self.users = Users(options)
        self.pages = Pages()
        self.started = time.time()
        self.operations: list[Operation] = []
        self.log("Start the cluster", "SYSTEM", "(cluster)", f"{len(cluster.nodes)} nodes are online.")

    def log(self, name: str, operator: str, node: str, message: str) -> None:
        now = time.time()
        self.operations.append(Operation(str(uuid.uuid4()), name, "Committed", operator, node, now, ((now, message),)))

    def job(self, call: Call) -> Job:
        """Return the job whose id is in the request's path. Raise RequestRefused (404) if there is none with this
        id."""
        number = _parse_id(call, "jobId")
        if number not in self.scheduler.jobs:
            raise RequestRefused(404, f"The job {number} does not exist.")
        return self.scheduler.jobs[number]

    def task(self, call: Call) -> tuple[Job, Task]:
        """Return the job in the request's path, and its task or subtask that the path names. Raise RequestRefused (404)
        if there is none with this id."""
        job, number = self.job(call), _parse_id(call, "taskId")
        if number not in job.tasks:
            raise RequestRefused(404, f"The task {number} of job {job.number} does not exist.")
        task = job.tasks[number]
        return job, _find_subtask(task, call) if "subtaskId" in call.path else task

    def node(self, call: Call) -> SimulatedNode:
        """Return the cluster's node whose name is in the request's path. Raise RequestRefused (404) if there is none
        with this name."""
        node = self.cluster.node(call.path["name"])
        if node is None:
            raise RequestRefused(404, f"The node {call.path['name']} does not exist.")
        return node

    def group(self, call: Call) -> str:
        """Return the name of the node group in the request's path, in the group's own spelling. Raise RequestRefused
        (404) if there is none with this name."""
        name = call.path["name"]
        for each in self.cluster.groups:
            if each.lower() == name.lower():
                return each
        raise RequestRefused(404, f"The node group {name} does not exist.")


def _find_subtask(master: Task, call: Call) -> Task:
    number = _parse_id(call, "subtaskId")
    if number in master.subtasks:
        return master.subtasks[number]
    if master.is_sweep and not master.subtasks:
        raise RequestRefused(
            404, f"The subtask {master.key}.{number}: the specified subtask has not been expanded yet."
        )
    raise RequestRefused(404, f"The subtask {master.key}.{number} does not exist.")


def _parse_id(call: Call, name: str) -> int:
    text = call.path[name]
    if not (text.isascii() and text.lstrip("-").isdigit()):
        raise RequestRefused(400, f"{text!r} is not an id.")
    if len(text) > 10:
        raise RequestRefused(404, f"{text} does not exist.")
    return int(text)


def parse_message(body: object) -> str:
    """Return the user's message in a request's body, which is a JSON string; "" for no body. Raise RequestRefused if
    the body is anything else."""
    if body is None:
        return ""
    if not isinstance(body, str):
        raise RequestRefused(400, "The message is not a string.")
    return body
