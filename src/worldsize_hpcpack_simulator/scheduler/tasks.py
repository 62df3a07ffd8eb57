"""The life of tasks on nodes: their start, and their end by themselves, by a user, or with their node."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from worldsize_hpcpack_simulator.options import SimulatorOptions
from worldsize_hpcpack_simulator.scheduler.cluster import Cluster, SimulatedNode
from worldsize_hpcpack_simulator.scheduler.jobs import LIVE, Job, Task
from worldsize_hpcpack_simulator.scheduler.task_environment import start_order


class TaskRunner:
    """The runner of tasks: all jobs by id, those that have not ended, and the nodes on which their tasks run.

    `changed` is called after a node has reported something, since a step may be due then.
    """

    def __init__(self, cluster: Cluster, options: SimulatorOptions) -> None:
        self.cluster, self.options = cluster, options
        self.jobs: dict[int, Job] = {}
        self.active: dict[int, Job] = {}
        self.changed: Callable[[], None] = lambda: None
        cluster.on_message, cluster.on_lost = self.handle_message, self.handle_lost_node

    def start(self, task: Task, job: Job) -> None:
        """Make the task Running, and order the first of its nodes to start its command line. Its other nodes are
        reserved for it."""
        task.enter_state("Running")
        self.cluster.nodes[task.nodes[0]].send_order(**start_order(task, job, self.cluster))

    def handle_message(self, node: SimulatedNode, words: Mapping[str, Any]) -> None:
        """Handle the message `words` of a node that a task's processes have ended: record the exit code and output, and
        make the task end. A message about a task that has ended already is ignored."""
        task = self._find_running(words["key"])
        if task is not None:
            task.exit_code, task.output = words["code"], words["output"]
            self._end_by_result(task, node, words["trouble"])
            self.changed()

    def _find_running(self, order: str) -> Task | None:
        """Return the live task whose order key is `order`; None if the task has ended or was started again since."""
        job = self.jobs.get(int(order.partition(".")[0]))
        tasks = (
            (task for task in job.runnable_tasks() if task.order == order and task.state in LIVE) if job else iter(())
        )
        return next(tasks, None)

    def _end_by_result(self, task: Task, node: SimulatedNode, trouble: str) -> None:
        if task.ending:
            end_run(task, task.ending)
        elif trouble:
            end_run(task, "Failed", f"The task could not run on node {node.name}: {trouble}.")
        elif task.exit_code in _success_codes(task):
            end_run(task, "Finished")
        else:
            end_run(task, "Failed", f"The command of the task exited with code {task.exit_code}.")

    def handle_lost_node(self, node: SimulatedNode) -> None:
        """Handle the end of a node's process: tasks on the node fail, or run again if they are rerunnable, and jobs
        lose its cores."""
        if node.state != "Offline":
            node.health = "Error"
        for job in self.active.values():
            job.held.pop(node.name, None)
            for task in job.runnable_tasks():
                if task.state in LIVE and node.name in task.nodes:
                    self._end_lost_task(task, node)
        self.changed()

    def _end_lost_task(self, task: Task, node: SimulatedNode) -> None:
        why = f"Node {node.name} became unreachable while the task was running."
        if task.nodes[0] != node.name:
            self._order_end(task, 0)
        if task.ending:
            end_run(task, task.ending)
        elif task.flag("IsRerunnable"):
            task.renew()
            task.requeues += 1
            task.enter_state("Queued", why)
        else:
            task.exit_code = -1
            end_run(task, "Failed", why)

    def end_task(self, task: Task, state: str, message: str, forced: bool = False) -> None:
        """End a task; `forced` means without grace. It enters `state` once its processes have ended. A task without
        processes ends at once, as Canceled if `state` is Failed."""
        if task.state in ("Running", "Canceling"):
            if not task.ending:
                task.ending = state
                task.enter_state("Canceling", message)
            self._order_end(task, 0 if forced else self.options.grace)
        elif not task.is_over and task.state != "Finishing":
            task.enter_state("Canceled" if state == "Failed" else state, message)

    def _order_end(self, task: Task, grace: float) -> None:
        self.cluster.nodes[task.nodes[0]].send_order(do="end", key=task.order, grace=grace)


def end_run(task: Task, state: str, message: str = "") -> None:
    """Make a task whose processes have ended enter the state Finishing, after which it enters `state`."""
    task.ending = state
    task.enter_state("Finishing", message)


def _success_codes(task: Task) -> set[int]:
    """Return the exit codes that count as success of the task: those in its property ValidExitCodes, else 0."""
    words = task.value("ValidExitCodes").replace(",", " ").split()
    return {int(word) for word in words if word.lstrip("-").isdigit()} or {0}
