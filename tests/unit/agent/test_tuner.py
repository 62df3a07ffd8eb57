"""The head's tuner while it waits for those of the other nodes."""

from __future__ import annotations

import selectors
import socket
from types import SimpleNamespace

from worldsize.agent.control.channel import GREETING, HeadChannel
from worldsize.agent.trials.tuner import _HeadTuner


def test_whoever_proves_nothing_in_time_is_dropped() -> None:
    """Found by review: such a connection was kept until all had come."""
    now = [0.0]
    looks = [0]

    def told_to_stop() -> bool:
        looks[0] += 1
        now[0] += GREETING + 1
        return looks[0] == 3

    with selectors.DefaultSelector() as selector, socket.create_server(("127.0.0.1", 0)) as listener:
        listener.setblocking(False)
        head = object.__new__(_HeadTuner)
        head._selector = selector
        head._channel = HeadChannel(listener, "token", 2, selector, clock=lambda: now[0])
        head._node = SimpleNamespace(plan=SimpleNamespace(nodes=(0, 0)), is_stop_requested=told_to_stop)  # type: ignore[assignment]
        with socket.create_connection(listener.getsockname()) as stranger:
            assert head._wait_for_tuners() is False
            stranger.settimeout(5)
            while stranger.recv(4096):
                pass
