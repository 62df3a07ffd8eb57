"""The end of one node's ranks: its reason and its time. The first verdict begins the end of the ranks. TERM, KILL and
the end of the wait for other nodes follow by the clock.

Methods take the time, in seconds of one monotonic clock. The objects that are passed in act on ranks, other nodes and
records.
"""

from __future__ import annotations

import signal
import time
from collections.abc import Sequence

from worldsize.agent.control.solo_peers import Peers
from worldsize.agent.outcome import verdict
from worldsize.agent.outcome.node_record import NodeRecorder
from worldsize.agent.outcome.verdict import Verdict, failure_verdict, stronger_verdict
from worldsize.agent.supervision.deadlines import Deadline, Part, Suspension
from worldsize.agent.supervision.rank_processes import RankProcesses
from worldsize.common.termination import LEFTOVER_GRACE, Termination
from worldsize.state.first_failure import FirstFailure, first_failure, has_timed_out
from worldsize.state.records import Failure, Reason

LEFTOVER_PATIENCE = 1.0
"""Seconds that a process started by a rank has to end by itself, once the rank is gone."""

LATE = 5.0
"""Seconds beyond the grace period for which the agent waits for the other nodes."""


class RunEnd:
    """The end of one node's part in a run.

    verdict     the reason why the part ends; None while there is none
    stopped_at  the time at which the reason was first known (Unix time)
    node_done   whether the ranks are gone, and all processes that they have left behind
    parts       the parts that act by the clock, to be ticked with the supervisor's own
    """

    def __init__(self, grace: float, ranks: RankProcesses, peers: Peers, recorder: NodeRecorder) -> None:
        """Create the object that decides why and when this node's part in a run ends; there is no reason yet. `grace`
        is the number of seconds between TERM and KILL for the ranks."""
        self.verdict: Verdict | None = None
        self.stopped_at = 0.0
        self.node_done = False
        self._grace = grace
        self._ranks = ranks
        self._peers = peers
        self._recorder = recorder
        self._first_failure = FirstFailure()
        self._termination = Termination()
        self._time_limit = Deadline()
        self._limit = 0.0
        self._farewell = Deadline()
        self.parts: Sequence[Part] = (
            Part(lambda: self._first_failure.decide_at, self._decide_overdue_failure),
            Part(lambda: None if self.node_done else self._termination.deadline(), self._signal_ranks),
            Part(self._completion_time, self._decide_completion),
            Part(self._time_limit.deadline, self._decide_time_limit),
        )

    def start_time_limit(self, seconds: float, now: float) -> None:
        """Start the job's time limit: the ranks of this node are ended `seconds` from `now`."""
        self._limit = seconds
        self._time_limit.at = now + seconds

    # the reason for the end

    def decide(self, proposed: Verdict, now: float, final: bool = False) -> None:
        """Replace the present verdict on the run by `proposed` if that is stronger, or if it is `final`, the head's
        verdict. Send a changed verdict to the other nodes, unless it is final. The first verdict begins the end of this
        node's ranks."""
        before = self.verdict
        self.verdict = proposed if final else stronger_verdict(before, proposed)
        if self.verdict == before:
            return
        if not final:
            self._peers.send_verdict(self.verdict)
        self._recorder.write_event("stopping", **self.verdict.fields())
        if before is None:
            suspect = self._first_failure.drop()
            self.stopped_at = time.time()
            self._termination.request(now, 0.0 if self._recorder.is_replaced() else self._grace)
            self._signal_ranks(now)
            if suspect is not None and has_timed_out(suspect):
                self.decide_failure(suspect, now)  # it has waited for others, and may have been first

    def decide_failure(self, failure: Failure | None, now: float, why: str = verdict.FAILURE) -> None:
        """Pass the verdict that the run ends because of `failure` to `decide`; do nothing if `failure` is None."""
        if failure is not None:
            self.decide(Verdict(why, failure), now)

    def weigh_failures(self, failures: Sequence[Failure], now: float) -> None:
        """Decide whether the run ends because of the failures of ranks of this node that have just ended. Until there
        is a verdict, a failure that another failure may have caused waits for that one."""
        if self.verdict is not None:
            self.decide_failure(first_failure(failures), now)
        else:
            cancel = bool(failures) and self._recorder.is_cancel_requested()
            self.decide_failure(self._first_failure.consider(failures, now, cancel), now)

    def _decide_overdue_failure(self, now: float) -> None:
        self.decide_failure(self._first_failure.overdue(now), now)

    def _completion_time(self) -> float | None:
        leaders = self._peers.leader_tracker
        return leaders.complete_at if leaders is not None and self.verdict is None else None

    def _decide_completion(self, now: float) -> None:
        complete_at = self._completion_time()
        if complete_at is not None and now >= complete_at:
            self.decide(Verdict(verdict.COMPLETE, None), now)

    def _decide_time_limit(self, now: float) -> None:
        if self._time_limit.is_passed(now):
            what = f"the time limit of {self._limit:g} s (limits.timeout) was reached"
            self.decide(failure_verdict(verdict.TIMEOUT, Reason.TIME_LIMIT, what, code=verdict.TIMEOUT_CODE), now)

    # the time of the end

    def cut_grace(self, now: float) -> None:
        """Make KILL due now for the ranks of this node that are left, without any further grace period."""
        self._termination.request(now, 0.0)

    def end_node(self, now: float) -> None:
        """Terminate the processes that the ranks of this node have left behind, once the ranks are gone. When nothing
        is left, set `node_done` and report it to the head. Call this repeatedly once ranks have been started, or never
        will be."""
        if self.node_done or self._ranks or self._first_failure.decide_at is not None:
            return
        patience = LEFTOVER_PATIENCE if self.verdict is None else 0.0
        if self._termination.kill_at is None:
            self._termination.request(now, min(self._grace, LEFTOVER_GRACE), delay=patience)
        if self._ranks.end_leftovers(now, self._termination.is_overdue(now), patience):
            self.node_done = True
            self._farewell.at = now + self._grace + LATE
            self._peers.report_done()

    def needs_quick_look(self, now: float) -> bool:
        """Return whether this node's processes are about to end, so that the agent must check them within
        milliseconds."""
        ending = self._termination.kill_at is not None and not self.node_done
        return ending and (self._termination.is_overdue(now) or not self._ranks)

    def may_leave(self, now: float) -> bool:
        """Return whether this node's agent may end: no process of the run is left on the node, and the agent need not
        wait for another node."""
        late = self.verdict is not None and now > (self._farewell.at or now)
        return self.node_done and self._peers.may_end(late)

    def _signal_ranks(self, now: float) -> None:
        due = self._termination.signal_due(now) if self._ranks else None
        if due == signal.SIGTERM:
            self._ranks.terminate()
        elif due == signal.SIGKILL:
            self._ranks.kill()


def suspension_verdict(suspension: Suspension, now: float, node_rank: int, host: str) -> Verdict | None:
    """Return the verdict that the node was lost, for a node that gets a signal to stop right after its agent was
    suspended, because the other nodes have then ended the run; None if the agent was not suspended recently."""
    if not suspension.is_recent(now, LATE):
        return None
    what = f"its agent was stopped for {suspension.seconds:.0f} s"
    return verdict.lost_node_verdict(verdict.NODE_LOST, node_rank, what, host)
