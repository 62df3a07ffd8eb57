"""Commands on nodes. HPC Pack sends no command to a node that a job holds, and returns no output, so both use the
share.

In a running run, its agents find the commands (`command_watcher` of the wing `node_commands`). On nodes of their own,
commands are a job with one task for each node.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Sequence

from worldsize.compute.capabilities import NodeCommand, NodeCommandStream, NodeStartStatus
from worldsize.errors import SubmitAgain, SubmitRejected, UsageError, WorldsizeError
from worldsize.plan.plan import Plan, node_major_layout
from worldsize.plan.run_paths import NODE_PROGRAM_FILE, RunPaths
from worldsize.service.providers import provider
from worldsize.wings.hpcpack.failure_cause import find_failure_cause
from worldsize.wings.hpcpack.head.client import NODE_COMMAND_PATIENCE, PATIENCE, HeadNodeClient
from worldsize.wings.hpcpack.head.wire import Properties, number_of
from worldsize.wings.hpcpack.observe import tasks_of, waiting_words
from worldsize.wings.hpcpack.render import Requests, RequestSettings, command_line, requests
from worldsize.wings.hpcpack.settings import Share
from worldsize.wings.hpcpack.states import ENDED_TASK_STATES, state_of
from worldsize.wings.hpcpack.submission import submit_all

ClientFactory = Callable[[float], HeadNodeClient]
"""A function that creates a client of the head node. Its argument is the number of seconds for which requests are
retried."""

_GRACE = 10.0
_TASKS_EVERY = 3.0
_NOTICE_AFTER = 2.0


def execute(command: NodeCommand, share: Share) -> NodeCommandStream:
    """Start the execution of a user's command on nodes of a running run, by files on the share that the run's agents
    find. Return the stream of its output. Raise UsageError if the run's agents do not look for commands. Raise
    StorageError if the files cannot be written."""
    if command.plan is not None and not command.plan.errands:
        raise UsageError(f"the agents of {command.plan.run_id} do not read commands", None, "start it again")
    stream: NodeCommandStream = provider("node_commands").execute_on_run(command, share.to_node_path)
    return stream


def execute_on_own_nodes(command: NodeCommand, asked: RequestSettings, heads: ClientFactory) -> NodeCommandStream:
    """Start the execution of a user's command outside any run, as an HPC Pack job with the compute's options: on the
    nodes that the command names, else on as many nodes as it asks for. Return the stream of its output. If the head
    node refuses the job, the stream reports this when the head node does, which may be later."""
    share = asked.share

    def submit(directory: str) -> CommandJob:
        made = _requests(command, asked, directory)
        with heads(PATIENCE) as head:
            (job,) = submit_all(head, [made], lambda jobs: (), lambda jobs: None)
        return CommandJob(heads, job, command.nodes, share)

    commands = provider("node_commands")
    stream: NodeCommandStream = commands.execute_by_job(command, str(share.local), share.to_node_path, submit)
    return stream


class CommandJob:
    """The HPC Pack job of a user's command on nodes, with one task for each node, in the order of the nodes. `release`
    may be called while another thread is in `start_status`: each has a client of its own."""

    def __init__(self, heads: ClientFactory, job: int, nodes: Sequence[int], share: Share) -> None:
        self._heads = heads
        self._head = heads(NODE_COMMAND_PATIENCE)
        self._job = job
        self._nodes = nodes
        self._share = share
        self._begun = time.monotonic()
        self._tasks_at = 0.0
        self._gone: dict[int, str] = {}

    def start_status(self) -> NodeStartStatus:
        row = self._head.read_job(self._job)
        state, now = state_of(row.get("state", "")), time.monotonic()
        if state.phase == "queued":
            soon = now - self._begun < _NOTICE_AFTER
            return NodeStartStatus(False, note="" if soon else f"HPC Pack job {self._job} {waiting_words(row)}")
        ended = state.phase == "ended"
        if ended or now >= self._tasks_at:
            self._tasks_at = now + _TASKS_EVERY
            self._read_tasks(row, ended)
        if ended and not row.get("starttime"):
            raise SubmitRejected(self._failure_text(row, []), f"HPC Pack job {self._job}")
        return NodeStartStatus(gone=dict(self._gone))

    def release(self, ended: bool) -> None:
        """Cancel the HPC Pack job of the command, unless the commands on all nodes have `ended`. Errors of the head are
        ignored: the nodes terminate by themselves, since their lease is not renewed."""
        if not ended:
            try:
                with self._heads(NODE_COMMAND_PATIENCE) as head:
                    head.post(f"/jobs/{self._job}/cancel", "worldsize exec has ended", forced=True)
            except WorldsizeError:
                pass

    def _read_tasks(self, row: Properties, over: bool) -> None:
        for task in tasks_of(self._head, self._job):
            number = number_of(task.get("name", "").rpartition("-")[2])
            if number is None or not 0 <= number < len(self._nodes):
                what = f"the head node's answer is not understood: {task.get('name')!r:.80} is not one of its tasks"
                raise SubmitAgain(what, f"HPC Pack job {self._job}")
            if over or task.get("state") in ENDED_TASK_STATES:
                self._gone[self._nodes[number]] = self._failure_text(row, [task])

    def _failure_text(self, row: Properties, tasks: Sequence[Properties]) -> str:
        if row.get("state", "").lower() == "canceled":
            return "HPC Pack job {} was cancelled: {}".format(
                self._job, row.get("errormessage") or "it gives no reason"
            )
        return find_failure_cause(row, tasks, self._share.node).message


def _requests(command: NodeCommand, asked: RequestSettings, directory: str) -> Requests:
    plan = Plan(
        run_id="exec " + os.path.basename(directory),
        name="exec",
        compute="",
        created=0.0,
        attempt=0,
        nodes=node_major_layout(len(command.nodes), 1),
        argv=command.argv,
        environment={},
        grace=_GRACE,
        timeout=command.limit,
    )
    said = {**asked.said, "nodes": list(command.hosts.values())} if command.hosts else asked.said
    made = requests(asked._replace(said=said), plan, RunPaths(directory))
    there = asked.share.to_node_path(directory)
    tasks = []
    for number, task in enumerate(made.tasks):
        words = [asked.python, "-I", "-S", f"{there}/{NODE_PROGRAM_FILE}", there, str(command.nodes[number])]
        tasks.append({**task, "CommandLine": command_line(words)})
    return Requests({**made.job, "FailOnTaskFailure": "False"}, tuple(tasks))
