"""A head's channel under fire: `make fuzz`, or so many messages of it in a test.

Two nodes that belong to the run talk all the time. Strangers flood the port, leave connections half open, dribble, hang
up, repeat what they have heard, and send lines that are nearly right. The channel is to hear its nodes, and nothing
else; it is to raise nothing, and to hold no more connections than it promises.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import socket
import sys
import time
from collections.abc import Callable

sys.path.insert(0, os.path.dirname(os.path.dirname(os.path.abspath(__file__))))

from security.heads import HOST, Head

from worldsize.agent.control.link import Link
from worldsize.agent.control.message_proof import MEMBER, new_nonce
from worldsize.agent.control.rendezvous import STRANGERS

NODES = 5
_HELLO = json.dumps({"kind": "hello", "node_rank": 3, "host": HOST}, separators=(",", ":")).encode()
_KINDS = ("hello", "welcome", "verdict", "told", "end", "ready", "done", "ping", "idle", "ended", "gone", "", "\0")


class Fuzz:
    """`said` counts the messages that strangers have sent, `heard` those of nodes that have come."""

    def __init__(self, seed: int) -> None:
        self.random = random.Random(seed)
        self.head = Head(NODES)
        self.said = self.heard = self.sent = 0
        self.nodes = [self._node(1), self._node(2)]
        self.recorded = [self._transcript() for _ in range(8)]
        self.open: list[socket.socket] = []

    def _node(self, node_rank: int) -> Link:
        link = self.head.node(node_rank)
        self.head.has(link, node_rank)
        self.head.news.clear()
        return link

    def _transcript(self) -> bytes:
        """What a node of this run has once said to its head, and is worth nothing to who repeats it."""
        ours, theirs = socket.socketpair()
        link = Link(ours, "5ecre7" * 5, MEMBER)
        theirs.send(new_nonce() + b"\n")
        link.send("hello", node_rank=3, host=HOST)
        link.send("ready")
        link.receive()
        data = theirs.recv(1 << 16)
        ours.close()
        theirs.close()
        return data

    def run(self, messages: int, told: Callable[[int], None] = lambda said: None) -> None:
        """AssertionError for whatever should not be."""
        while self.said < messages:
            self.random.choice((self._lines, self._lines, self._flood, self._half_open, self._dribble, self._repeat))()
            self.head.clock.now += self.random.random()
            self._turn()
            told(self.said)
        for each in self.open:
            each.close()
        self.head.until(lambda: self._take() == self.sent)
        assert set(self.head.channel.hosts) == {1, 2}, "a stranger has joined"

    def _turn(self) -> None:
        self._exchange()
        for _ in range(4):
            self.head.turn(0)
        strangers = self.head.channel._strangers
        assert len(strangers) <= NODES - 1 - 2 + STRANGERS, "%d strangers" % len(strangers)
        while len(self.open) > 200:
            self._hang_up(self.open.pop(self.random.randrange(len(self.open))))

    def _exchange(self) -> None:
        for link in self.nodes:
            link.send("ping")
            self.sent += 1
            assert all(message["kind"] != "gone" for message in link.receive()), "a node was dropped"
        self._take()

    def _take(self) -> int:
        for node_rank, kind in self.head.news:
            assert node_rank in (1, 2) and kind == "ping", "heard %r of node %d" % (kind, node_rank)
        self.heard += len(self.head.news)
        self.head.news.clear()
        return self.heard

    def _connect(self) -> socket.socket:
        connection = self.head.connect()
        connection.setblocking(False)
        self.open.append(connection)
        return connection

    def _send(self, connection: socket.socket, data: bytes) -> None:
        self.said += 1
        try:
            connection.send(data)
        except OSError:
            pass

    def _hang_up(self, connection: socket.socket) -> None:
        if self.random.random() < 0.5:  # with a reset
            connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, b"\x01\0\0\0\0\0\0\0")
        connection.close()

    # what strangers do

    def _lines(self) -> None:
        connection = self._connect()
        lines = [self._line() for _ in range(self.random.randint(1, 30))]
        if self.random.random() < 0.8:
            lines.insert(0, new_nonce())
        for line in lines:
            self._send(connection, line + b"\n")

    def _line(self) -> bytes:
        choice = self.random.random()
        if choice < 0.2:
            return self.random.randbytes(self.random.choice((0, 1, 31, 32, 33, 64, 65, 66, 300, 5000)))
        message: object = {"kind": self.random.choice(_KINDS), "node_rank": self._number(), "host": self._host()}
        if choice < 0.3:
            message = self.random.choice((None, [], "", 1e400, [message], {"kind": message}, {"kind": None}, -1))
        text = b"[" * 3000 if choice > 0.97 else json.dumps(message).encode()
        mac = self.random.choice((b"0" * 64, self.random.randbytes(32).hex().encode(), b"", b"\xff" * 64, b"g" * 64))
        return mac + self.random.choice((b" ", b"", b"\0", b"  ")) + text

    def _number(self) -> object:
        return self.random.choice((0, 1, 2, 3, -1, 5, 10**40, 1.5, None, "1", [1], True))

    def _host(self) -> object:
        return self.random.choice(
            (HOST, None, [], {}, ["n", "x", 0, [1]], ["n", 1e400, "", []], ["\x1b", 1, "", [None]])
        )

    def _flood(self) -> None:
        for _ in range(self.random.randint(1, 120)):
            self._send(self._connect(), self.random.choice((b"", b"x", new_nonce() + b"\n")))

    def _half_open(self) -> None:
        connection = self._connect()
        self._send(connection, new_nonce()[: self.random.randint(0, 32)])
        if self.random.random() < 0.5:
            connection.shutdown(socket.SHUT_WR)

    def _dribble(self) -> None:
        connection, line = self._connect(), new_nonce() + b"\n" + b"0" * 64 + b" " + _HELLO + b"\n"
        for place in range(0, len(line), self.random.randint(1, 20)):
            self._send(connection, line[place : place + 20])
            self.head.turn(0)

    def _repeat(self) -> None:
        """A genuine session of another connection: as it was, cut, with a bit turned over, or out of order."""
        data = bytearray(self.random.choice(self.recorded))
        if self.random.random() < 0.7:
            data[self.random.randrange(len(data))] ^= 1 << self.random.randrange(8)
        lines = bytes(data[: self.random.choice((len(data), self.random.randrange(len(data))))]).split(b"\n")
        if self.random.random() < 0.3:
            self.random.shuffle(lines)
        self._send(self._connect(), b"\n".join(lines))


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--messages", type=int, default=100_000, help="how many strangers send (default: 100,000)")
    parser.add_argument("--seed", type=int, default=int(time.time()), help="as it was said by a run that failed")
    options = parser.parse_args()
    fuzz, began = Fuzz(options.seed), time.monotonic()
    due = 0

    def told(said: int) -> None:
        nonlocal due
        if said >= due:
            due += options.messages // 10
            print("%7d of %d messages, %.0f s" % (said, options.messages, time.monotonic() - began), flush=True)

    print("seed %d" % options.seed, flush=True)
    fuzz.run(options.messages, told)
    print("%d messages of strangers: none was heard; %d of nodes: all were" % (fuzz.said, fuzz.heard))
    return 0


if __name__ == "__main__":
    sys.exit(main())
