"""A head's channel and a member's, in this process, with clocks that go when they are told to."""

from __future__ import annotations

import selectors
import socket
from collections.abc import Callable

from driver import wait_for

from worldsize.agent.control.channel import HeadChannel, MemberChannel
from worldsize.agent.control.link import Link
from worldsize.agent.control.message_proof import MEMBER

TOKEN = "5ecre7" * 5
HOST = ["n", 1, "", []]


class Clock:
    def __init__(self) -> None:
        self.now = 1000.0

    def __call__(self) -> float:
        return self.now


class Head:
    """As an agent has it; `news` is what has been heard of nodes."""

    def __init__(self, nodes: int = 2, port: int = 0, patience: float = 0.0) -> None:
        self.clock = Clock()
        self.selector = selectors.DefaultSelector()
        listener = socket.create_server(("127.0.0.1", port), backlog=400)
        listener.setblocking(False)
        self.address = listener.getsockname()
        self.channel = HeadChannel(listener, TOKEN, nodes, self.selector, self.clock, patience)
        self.news: list[tuple[int, str]] = []

    def turn(self, seconds: float = 0.02) -> None:
        for key, _ in self.selector.select(seconds):
            key.data()
        self.news += [(news.node_rank, news.message["kind"]) for news in self.channel.take()]

    def connect(self) -> socket.socket:
        return socket.create_connection(self.address)

    def node(self, node_rank: object = 1, token: str = TOKEN, **changes: object) -> Link:
        """A connection that greets as a node does."""
        link = Link(self.connect(), token, MEMBER)
        link.send("hello", **{"node_rank": node_rank, "host": HOST, **changes})
        return link

    def until(self, holds: Callable[[], object], *links: Link) -> None:
        def turned() -> object:
            self.turn()
            for link in links:
                link.receive()
            return holds()

        wait_for(turned)

    def has(self, link: Link, node_rank: int = 1) -> None:
        self.until(lambda: node_rank in self.channel.hosts, link)


class Member:
    def __init__(self, address: tuple[str, int]) -> None:
        self.clock = Clock()
        self.selector = selectors.DefaultSelector()
        self.channel = MemberChannel(address, TOKEN, self.selector, self.clock)

    def turn(self) -> None:
        for key, _ in self.selector.select(0.01):
            key.data()

    def greet(self) -> None:
        assert self.channel.connect(1)
        self.channel.send("hello", node_rank=1, host=HOST)


def is_closed(connection: socket.socket) -> bool:
    """Whether the other side has hung up."""
    if connection.fileno() < 0:
        return True
    connection.setblocking(False)
    try:
        while connection.recv(4096):
            pass
    except BlockingIOError:
        return False
    except OSError:
        pass
    return True
