"""The watch over a run that may hang, in the process of one node's supervisor: the node's part, and on the head also
the run's.

Standard library only: travels inside agent.pyz (Python >= 3.8), and is loaded once ranks have run for a while.
"""

from __future__ import annotations

import json
from collections.abc import Callable

from worldsize.agent.control.solo_peers import Peers
from worldsize.agent.outcome.node_record import NodeRecorder
from worldsize.agent.supervision.deadlines import Part
from worldsize.agent.supervision.rank_processes import RankProcesses
from worldsize.common.json_values import PARSE_ERRORS
from worldsize.common.named_tuple import Any
from worldsize.plan.plan import Plan
from worldsize.plan.run_paths import RunPaths
from worldsize.wings.hangs.agent.signs_of_life import SignsOfLife
from worldsize.wings.hangs.agent.watch_head import WatchedRun
from worldsize.wings.hangs.agent.watch_node import WatchedNode

TOPIC = "hangs"
_LOOKS = 20
"""The number of looks at signs of life within the limit."""

_SHORTEST, _LONGEST = 0.1, 15.0
"""The minimum and maximum number of seconds between two looks."""

_WHILE_AT_WORK = 0.1
"""Seconds between two checks of whether a program has ended."""


class HangObserver:
    """The observer of one node. `part` is its work that is due by the clock. `decide` ends the run as one that hangs,
    with the reason."""

    def __init__(
        self,
        plan: Plan,
        paths: RunPaths,
        node: int,
        ranks: RankProcesses,
        peers: Peers,
        recorder: NodeRecorder,
        decide: Callable[[str], None],
        now: float,
    ) -> None:
        self._every = min(_LONGEST, max(_SHORTEST, plan.watchdog_timeout / _LOOKS))
        self._nodes = [each.node_rank for each in plan.agents]
        self._own = node
        self._peers = peers
        self._run: WatchedRun | None = None
        if node == 0:
            self._run = WatchedRun(plan, paths, recorder, ranks.spared, self._ask_all, decide, now)
        signs = SignsOfLife(self._every, now)
        self._node = WatchedNode(paths, node, ranks, signs, self._tell_head)
        self._look_at = self._due_at = now
        self._heard: list[tuple[int, str]] = []
        self.part = Part(lambda: self._due_at, self._tick)
        peers.listeners[TOPIC] = self._note_message

    def close(self) -> None:
        """Stop the programs of the node's hang observer, without waiting. It must be called once, after the ranks have
        ended."""
        self._peers.listeners.pop(TOPIC, None)
        self._node.look(self._look_at)
        self._node.close()
        if self._run is not None:
            self._run.close()

    def _tick(self, now: float) -> None:
        if now < self._due_at:
            return
        heard, self._heard = self._heard, []
        for node, text in heard:
            self._hear(node, text)
        self._node.finish_collecting(now)
        if now >= self._look_at:
            self._look_at = now + self._every
            self._node.look(now)
        if self._run is not None:
            left = {*self._peers.lost_nodes, *self._peers.done_nodes}
            self._run.step([node for node in self._nodes if node not in left], now)
        at_work = self._node.is_collecting or (self._run is not None and self._run.is_judging)
        self._due_at = min(self._look_at, now + (_WHILE_AT_WORK if at_work else self._every))

    def _ask_all(self, number: int, dumps: bool) -> None:
        for node in self._nodes:
            if node != self._own:
                self._peers.tell(node, TOPIC, json.dumps({"sample": number, "dumps": dumps}))
        self._node.start_collecting(number, dumps)

    def _tell_head(self, message: dict[str, Any]) -> None:
        if self._run is not None:
            self._run.hear(self._own, message)
        else:
            self._peers.tell(0, TOPIC, json.dumps(message))

    def _note_message(self, node: int, text: str) -> None:
        """Keep a message that the agent of another node has sent, for the observer's next tick: an exception here would
        end the agent."""
        self._heard.append((node, text))
        self._due_at = 0.0

    def _hear(self, node: int, text: str) -> None:
        """Process a message that the observer of another node has sent: on the head an answer, on other nodes the
        request for a sample. Ignore an invalid message."""
        try:
            message = json.loads(text)
        except PARSE_ERRORS:
            return
        if not isinstance(message, dict):
            return
        if self._run is not None:
            self._run.hear(node, message)
        elif isinstance(message.get("sample"), int):
            self._node.start_collecting(message["sample"], message.get("dumps") is True)
