"""Jobs from their submission to their end, a thread for each; those that find no free nodes wait in a queue."""

from __future__ import annotations

import threading
import time
from typing import TYPE_CHECKING

from azureml_double.address import MOST_NODES
from azureml_double.jobs import Job
from azureml_double.runs.execution import Execution
from azureml_double.web import Refusal

if TYPE_CHECKING:
    from azureml_double.service import Service


class Runner:
    """Gives nodes to jobs, the oldest first, as each compute has them."""

    def __init__(self, service: Service) -> None:
        self._service = service
        self._changed = threading.Condition()
        self._queue: list[Job] = []
        self._nodes: dict[str, list[int]] = {}
        self._computes: dict[str, str] = {}
        self._executions: dict[str, Execution] = {}

    def start(self, job: Job) -> None:
        with self._changed:
            self._queue.append(job)
            self._computes[job.name] = _compute(job)
        threading.Thread(target=self._run, args=(job,), name="job %s" % job.name, daemon=True).start()

    def cancel(self, job: Job) -> None:
        """Its end comes soon, where it is queued too."""
        job.cancel("cancelled by a request")
        with self._changed:
            self._changed.notify_all()

    def nodes_of(self, compute: str) -> dict[str, list[int]]:
        """The numbers of the nodes of each job that has some of this compute's."""
        with self._changed:
            return {name: nodes for name, nodes in self._nodes.items() if self._computes[name] == compute}

    def kill_node(self, job: Job, node: int) -> None:
        """Raises Refusal if the job has no such node now."""
        execution = self._executions.get(job.name)
        if execution is None or not execution.kill_node(node):
            raise Refusal(404, "NotFound", "Job %s has no running node %d." % (job.name, node))

    def end(self) -> None:
        """No job runs, and none will."""
        with self._changed:
            self._queue.clear()
            executions = list(self._executions.values())
        for execution in executions:
            execution.end()

    def _run(self, job: Job) -> None:
        try:
            job.enter("Queued")
            time.sleep(self._service.options.delay)
            nodes = self._take_nodes(job)
            if nodes is None:
                return job.enter("Canceled")
            execution = self._executions[job.name] = Execution(self._service, job, nodes)
            execution.run()
        except Refusal as error:
            job.fail(error.code, str(error))
        except Exception as error:  # noqa: BLE001 - the job must end, and whoever looks at it must see why
            job.fail("ServiceError", "The double failed: %r" % error)
        finally:
            with self._changed:
                self._nodes.pop(job.name, None)
                self._executions.pop(job.name, None)
                self._changed.notify_all()

    def _take_nodes(self, job: Job) -> list[int] | None:
        """The numbers of its nodes, once it is the first whose compute has as many; None if it is cancelled."""
        with self._changed:
            while not job.cancelled.is_set():
                if self._is_next(job):
                    taken = {node for nodes in self._nodes.values() for node in nodes}
                    free = [node for node in range(MOST_NODES) if node not in taken]
                    self._queue.remove(job)
                    self._nodes[job.name] = free[: job.instances]
                    self._changed.notify_all()
                    return self._nodes[job.name]
                self._changed.wait()
            self._queue.remove(job)
            return None

    def _is_next(self, job: Job) -> bool:
        compute = _compute(job)
        first = next((each for each in self._queue if _compute(each) == compute), None)
        most = int(str(self._service.options.computes.get(compute, ["", MOST_NODES])[1]))
        used = sum(len(nodes) for name, nodes in self._nodes.items() if self._computes[name] == compute)
        return first is job and used + job.instances <= most


def _compute(job: Job) -> str:
    return str(job.properties.get("computeId") or "").rpartition("/")[2]
