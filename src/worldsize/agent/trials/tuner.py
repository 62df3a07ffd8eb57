"""A search for the best configuration: the head's tuner chooses trials and sends them to the others, which have their
part in them. One such program per node stands where a launcher would; the agents see to its end as to any other's.

Trials of fewer nodes than the run has go on beside each other, each on neighbours. The nodes' tuners speak as agents do
(agent/control/channel.py), `kind` first:
head → node   lead {number} · join {number, rendezvous} · stop {number} · end
node → head   led {number, rendezvous} · said {number, values} · ended {number, code, why}
"""

from __future__ import annotations

import os
import selectors
import socket
import time
from collections.abc import Mapping, Sequence

from worldsize.agent.control.channel import GONE, HELLO, HeadChannel, MemberChannel
from worldsize.agent.control.message_proof import derive_token
from worldsize.agent.control.ports import LISTENER
from worldsize.agent.control.rendezvous import read_rendezvous
from worldsize.agent.launchers.autotune import order_file
from worldsize.agent.posix.signals import SignalPipe
from worldsize.agent.trials.coordinator import SearchCoordinator
from worldsize.agent.trials.search_node import SearchNode, base_config
from worldsize.common.atomic_files import read_json
from worldsize.errors import UsageError
from worldsize.plan.plan import Plan
from worldsize.plan.run_paths import RunPaths

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

_TICK = 0.2
_JOINING_TICK = 0.02
_IS_GONE = "the tuner of node %d is gone"
_MEETING = 60.0


def tune(paths: RunPaths, node_rank: int) -> int:
    """One node's part in the search, to its end; what this program exits with."""
    order = read_json(order_file(paths, node_rank))
    try:
        os.unlink(order_file(paths, node_rank))  # it has the plan's secrets
    except OSError:
        pass
    published = read_rendezvous(paths)
    if order is None or published is None:
        raise UsageError("holds no search that has begun", paths.root)
    plan = Plan.from_json(order["plan"])
    inherited = os.environ.pop(LISTENER, "")  # before trials inherit the rest
    signals = SignalPipe()
    selector = selectors.DefaultSelector()
    selector.register(signals, selectors.EVENT_READ, lambda: None)
    token = derive_token(published.token, "tuners")  # whoever is in between cannot lead one to the agents' head
    node = SearchNode(plan, paths, node_rank, order["addresses"], signals, published.token)
    try:
        if node_rank:
            return _MemberTuner(node, selector, order["port"], token).run()
        return _HeadTuner(node, selector, int(inherited), token).run()
    except OSError as error:
        print(f"autotune: {error}", flush=True)
        return 1


class _MemberTuner:
    """Any node but the head."""

    def __init__(self, node: SearchNode, selector: selectors.BaseSelector, port: int, token: str) -> None:
        self._node = node
        self._selector = selector
        self._channel = MemberChannel((node.addresses[0], port), token, selector)
        self._over = False
        self._code = 0

    def run(self) -> int:
        if not self._connect():
            return 143
        while not (self._over and not self._node.is_busy):
            for key, _ in self._selector.select(_TICK):
                key.data()
            for message in self._channel.take():
                if message["kind"] in ("end", GONE):
                    self._end(0 if message["kind"] == "end" else 1)
                elif not self._over:
                    self._send_messages(self._node.handle_order(message))
            self._send_messages(self._node.take_messages())
            if self._node.is_stop_requested():
                self._end(143)
        return self._code

    def _connect(self) -> bool:
        """The head's tuner starts when its agent does, which may be a moment later. False: told to stop before."""
        deadline = time.monotonic() + _MEETING
        while not self._channel.connected:
            try:
                if self._channel.connect(1.0):
                    self._channel.send(HELLO, node_rank=self._node.node_rank, host=["", 0, "", []])
            except ConnectionRefusedError:
                pass
            if self._node.is_stop_requested():
                return False
            for key, _ in self._selector.select(_JOINING_TICK):
                key.data()
            if time.monotonic() > deadline:
                raise OSError(
                    "the head's tuner is not to be reached: {}".format(self._channel.trouble or "nobody answers")
                )
        return True

    def _send_messages(self, messages: Sequence[Mapping[str, Any]]) -> None:
        for message in messages:
            self._channel.send(**message)

    def _end(self, code: int) -> None:
        """The first reason holds: a head that has said its last word is gone, too."""
        if not self._over:
            self._over, self._code = True, code
        self._node.stop()


class _HeadTuner:
    """Node 0: has its own part in trials like the others, and leads the search."""

    def __init__(self, node: SearchNode, selector: selectors.BaseSelector, inherited: int, token: str) -> None:
        self._node = node
        self._selector = selector
        self._channel: HeadChannel | None = None
        nodes = len(node.plan.nodes)
        if nodes > 1:
            listener = socket.socket(fileno=inherited)
            listener.set_inheritable(False)
            listener.setblocking(False)
            self._channel = HeadChannel(listener, token, nodes, selector)
        self._coordinator = SearchCoordinator(node.plan, node.paths, base_config(node.paths, node.search["config"]))
        self._stopped = 0

    def run(self) -> int:
        if not self._wait_for_tuners():
            return 143
        self._coordinator.begin()
        while self._node.is_busy or not (self._stopped or self._coordinator.is_over):
            for key, _ in self._selector.select(_TICK):
                key.data()
            for news in self._channel.take() if self._channel else ():
                if news.message["kind"] == GONE and not self._stopped:
                    raise OSError(_IS_GONE % news.node_rank)
                self._handle_message(news.node_rank, news.message)
            for message in self._node.take_messages():
                self._handle_message(0, message)
            if self._node.is_stop_requested():
                self._stopped = 143
                self._coordinator.stop()
                self._node.stop()
            self._send_orders()
        if self._channel:
            self._channel.send("end")
        return self._stopped or self._coordinator.finish()

    def _wait_for_tuners(self) -> bool:
        """Wait until all nodes' tuners have come. False: told to stop before."""
        deadline = time.monotonic() + _MEETING
        while self._channel is not None and len(self._channel.hosts) < len(self._node.plan.nodes) - 1:
            for key, _ in self._selector.select(_TICK):
                key.data()
            self._take_greetings()
            if self._node.is_stop_requested():
                return False
            if time.monotonic() > deadline:
                raise OSError("not all nodes' tuners have come")
        self._take_greetings()
        return True

    def _take_greetings(self) -> None:
        """Also what drops connections that prove nothing in time."""
        for news in self._channel.take() if self._channel else ():
            if news.message["kind"] == GONE:
                raise OSError(_IS_GONE % news.node_rank)

    def _handle_message(self, node_rank: int, message: Mapping[str, Any]) -> None:
        self._coordinator.handle_message(node_rank, message)
        self._send_orders()

    def _send_orders(self) -> None:
        """What the search has to say to nodes, its own included."""
        for node_rank, message in self._coordinator.take_orders():
            if node_rank and self._channel is not None:
                self._channel.send_to(node_rank, **message)
            elif not node_rank:
                for answer in self._node.handle_order(message):
                    self._handle_message(0, answer)
