"""A job's services (TensorBoard, JupyterLab) next to its first rank. This module decides when they start and end; a
wing decides which services there are, and how each is started."""

from __future__ import annotations

from worldsize.agent.outcome.node_record import NodeRecorder, note
from worldsize.agent.posix.processes import host_name
from worldsize.agent.supervision.deadlines import Part
from worldsize.agent.supervision.rank_processes import RankProcesses
from worldsize.common.named_tuple import Any
from worldsize.plan.plan import NodePlan, Plan
from worldsize.plan.run_paths import RunPaths

_SERVICES = "wings.services.agent.node_services"


class RankServices:
    """The services of a run, on its first node. A service that fails does not fail the run. `part` is the part that
    acts by the clock."""

    def __init__(self, ranks: RankProcesses, recorder: NodeRecorder) -> None:
        self.part = Part(self._deadline, self._tick)
        self._ranks = ranks
        self._recorder = recorder
        self._services: Any = None

    def start(self, plan: Plan, paths: RunPaths, node: NodePlan, local: bool) -> None:
        """Start the job's services (TensorBoard, JupyterLab) if this is the run's first node and ranks live. Record a
        notice if the node has less shared memory than the job requests. `local` means that the run's nodes are this
        machine."""
        if plan.shm_bytes:
            self._tell_shortage(plan.shm_bytes)
        running = list(self._ranks.running().values())
        if not plan.services or node.node_rank or not running:
            return
        try:
            from worldsize.registry import find_module  # few runs need it

            wing = find_module(_SERVICES)
            if wing is not None:
                self._services = wing.Services(plan, paths, running[0].environment, local, self._tell)
        except Exception as error:  # noqa: BLE001  # no file of the agent, or no memory: the run continues
            note(f"services are not started: {error}")

    def _tell_shortage(self, asked: int) -> None:
        from worldsize.agent.machine.shared_memory import shortage_text  # few runs need it

        text = shortage_text(asked, host_name())
        if text:
            self._recorder.write_event("notice", id="shared-memory", text=text)

    def _tell(self, text: str) -> None:
        self._recorder.write_event("notice", id="service", text=text)

    def _deadline(self) -> float | None:
        return self._services.deadline() if self._services is not None else None

    def _tick(self, now: float) -> None:
        if self._services is not None:
            self._services.tick(now)

    def finish(self) -> None:
        """Terminate the job's services on this node. Call this once, when the ranks have ended."""
        if self._services is not None:
            self._services.finish()
