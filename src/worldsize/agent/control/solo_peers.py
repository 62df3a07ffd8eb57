"""The interface through which a supervisor communicates with the other nodes, and its implementation for a run with
only one node."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Mapping, Sequence

from worldsize.agent.outcome.verdict import PeerVerdict, Verdict
from worldsize.common.named_tuple import Any, TypeAlias
from worldsize.plan.plan import Plan
from worldsize.plan.rank_variables import Host

TYPE_CHECKING = False
if TYPE_CHECKING:
    from worldsize.state.clocks import ClockOffset

Standstill: TypeAlias = "tuple[Sequence[int], float]"
"""The ranks of a node that have not ended, and the seconds for which all of them have been idle."""


class LeaderTracker:
    """The leaders that the head still waits for. The run is over once all leaders have ended with 0, since other ranks,
    such as parameter servers, would never end. Ranks of the plan's `lingering` roles first get the plan's grace period
    to end.

    `complete_at` is the time when the run is over, in seconds of one monotonic clock; None while a leader has not
    ended.
    """

    def __init__(self, plan: Plan) -> None:
        ranks = (rank for node in plan.nodes for rank in node.ranks)
        self._leaders = set(plan.leaders)
        self._lingering = {rank.rank for rank in ranks if rank.role in plan.lingering} - self._leaders
        self._grace = plan.grace
        self.complete_at: float | None = None

    def record_ended(self, ranks: Iterable[int], now: float) -> None:
        """Record that these `ranks` have ended with code 0 at `now`. Once all leaders have ended, set `complete_at`,
        the time when the run is over: `now`, or after the grace period while lingering ranks run."""
        self._leaders.difference_update(ranks)
        self._lingering.difference_update(ranks)
        if not self._leaders:
            self.complete_at = now if not self._lingering else self.complete_at or now + self._grace


class Peers:
    """The other nodes as a supervisor sees them. This class is for a run on one node: there are no other nodes to wait
    for.

    check_standstill  whether a rank of some node is known to have ended with 0
    leader_tracker    for a run that is over when some of its ranks have ended; None for others, and if another
                      node decides
    listeners         by topic: called with the rank of the node that has sent a text, and the text
    spare_nodes       the number of nodes that may be lost from now on
    expects_all       whether nodes that have not joined are on their way, and still get a verdict that was sent before
    done_nodes        on the head: the other nodes that are lost, or have reported that nothing of the run is left
    lost_nodes        the nodes that were lost, and that the run continues without
    clock             the offset of this node's clock from the head's, once it has been measured; None on the head
    """

    def __init__(self, own: Host, clock: Callable[[], float] = time.monotonic) -> None:
        self._own = own
        self._clock = clock
        self.check_standstill = False
        self.leader_tracker: LeaderTracker | None = None
        self.listeners: dict[str, Callable[[int, str], None]] = {}
        self.spare_nodes = 0
        self.expects_all = False
        self.done_nodes: set[int] = set()
        self.lost_nodes: tuple[int, ...] = ()
        self.clock: ClockOffset | None = None

    @property
    def address(self) -> str:
        """The address at which the other nodes reach this one, as far as this node knows it."""
        return self._own.address

    def gather_hosts(self) -> tuple[Host, ...] | None:
        """Return the hosts of all nodes, in the order of node ranks, once all nodes have joined the run and the head
        has sent the list; None before. In a run on one node, return this node's host at once."""
        return (self._own,)

    def report_ready(self, parts: int) -> bool:
        """Report to the head that this node has completed the first `parts` parts of its preparation. Return whether
        all nodes of the run have completed them."""
        return True

    def take_verdicts(self) -> list[PeerVerdict]:
        """Return the verdicts on the run that other nodes have sent to this node, or that the loss of a node leads to,
        since the last call."""
        return []

    def send_verdict(self, verdict: Verdict) -> None:
        """Send this node's new verdict on how the run ends to the other nodes: from the head to all nodes, from another
        node to the head."""

    def report_ended(self, ranks: Sequence[int]) -> None:
        """Report to the head that these ranks of this node have ended with code 0, in a run that is over when some of
        its ranks (the leaders) have ended."""
        if self.leader_tracker is not None:
            self.leader_tracker.record_ended(ranks, self._clock())

    def tell(self, node_rank: int, topic: str, text: str) -> None:
        """Send `text` to the listener that the agent of node `node_rank` has for this topic. The head can send to any
        node, another node's text always goes to the head."""

    def _call_listener(self, node_rank: int, message: Mapping[str, Any]) -> None:
        """Call this node's listener for the topic of a message that node `node_rank` has sent, with the rank and the
        text. A topic without a listener is ignored."""
        listener = self.listeners.get(message["topic"])
        if listener is not None:
            listener(node_rank, message["text"])

    def report_done(self) -> None:
        """Report to the head that no process of the run is left on this node."""

    def may_end(self, late: bool) -> bool:
        """Return whether this node's agent may end, once no process of the run is left on the node. `late` means that
        the agent need not wait for other nodes any longer."""
        return True

    def send_heartbeat(self, silence: float) -> list[PeerVerdict]:
        """Send a heartbeat to the connected nodes. Return verdicts on the nodes that have sent nothing for `silence`
        seconds, which count as lost; none for a run on one node."""
        return []

    def share_standstill(self, own: Standstill) -> Sequence[Standstill]:
        """Send this node's `own` standstill (the ranks that have not ended, and the seconds for which they have been
        idle) to the head. On the head, return the standstills of all nodes that have not ended, or nothing until all of
        them have reported. On other nodes return nothing, since the head decides."""
        return [own]

    def reset_silence(self) -> None:
        """Restart the measurement of the time for which each connected node has sent nothing, because this agent itself
        did not run for a while."""

    def missing_text(self, within: str = "") -> str:
        """Return a text for an error message that names the nodes that have not joined the run. `within` is the part of
        the text that states after how long they were missing."""
        return "nobody"

    def close(self, verdict: Verdict | None) -> None:
        """Close this agent's connections to the other nodes. The head sends the run's `verdict` before. This is the
        last thing that the agent does."""

    @property
    def has_joined(self) -> bool:
        """True if this node and the head have met, or never will."""
        return True

    @property
    def needs_quick_retry(self) -> bool:
        """True if `gather_hosts` must be called again within milliseconds."""
        return False
