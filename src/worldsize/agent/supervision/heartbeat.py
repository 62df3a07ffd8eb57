"""The heartbeat: the message that a node sends the other nodes at regular times, and the checks that it performs then:
the silence of other nodes, the disk, a standstill."""

from __future__ import annotations

from worldsize.agent.outcome import verdict
from worldsize.agent.supervision.deadlines import Part

TYPE_CHECKING = False
if TYPE_CHECKING:
    from worldsize.agent.control.solo_peers import Peers
    from worldsize.agent.outcome.node_record import NodeRecorder
    from worldsize.agent.supervision.rank_processes import RankProcesses
    from worldsize.agent.supervision.run_end import RunEnd
    from worldsize.agent.supervision.standstill import StandstillDetector
    from worldsize.plan.plan import Plan
    from worldsize.plan.run_paths import RunPaths

BEATS_PER_SILENCE = 9


class Heartbeat:
    """The heartbeat of one node.

    every  seconds from one beat to the next: a fraction of the time after which a silent node counts as lost, or idle
           ranks as hanging, whichever is shorter
    part   the part that acts by the clock, to be ticked with the supervisor's other parts
    """

    def __init__(
        self,
        plan: Plan,
        paths: RunPaths,
        ranks: RankProcesses,
        peers: Peers,
        recorder: NodeRecorder,
        end: RunEnd,
        now: float,
    ) -> None:
        self.every = min(plan.silence, plan.hang_timeout or plan.silence) / BEATS_PER_SILENCE
        self.part = Part(lambda: self._due_at, self._beat_if_due)
        self._due_at = now + self.every
        self._plan = plan
        self._paths = paths
        self._ranks = ranks
        self._peers = peers
        self._recorder = recorder
        self._end = end
        self._has_reported_unjoined = False
        self._standstill: StandstillDetector | None = None

    def _beat_if_due(self, now: float) -> None:
        if now < self._due_at:
            return
        self._due_at = now + self.every
        if self._recorder.full:
            self._end.decide(verdict.storage_full_verdict(self._paths.root), now)
        for heard in self._peers.send_heartbeat(self._plan.silence):
            self._end.decide(heard.verdict, now)
        if not self._peers.has_joined and not self._has_reported_unjoined:
            self._has_reported_unjoined = True
            self._recorder.write_event("unjoined", text=self._peers.missing_text())
        if self._plan.hang_timeout and self._end.verdict is None:
            self._check_standstill(now)

    def _check_standstill(self, now: float) -> None:
        if self._standstill is None:
            from worldsize.agent.supervision.standstill import StandstillDetector  # most runs are over by now

            self._standstill = StandstillDetector(self._plan, self._paths, self._peers, self.every)
        self._end.decide_failure(self._standstill.check(self._ranks.running(), now), now, verdict.HANG)
