"""Connections of strangers to the port where a run's nodes meet."""

from __future__ import annotations

import json
import selectors
import socket
from pathlib import Path

import pytest
from driver import Cli, wait_for
from security.people import Person

from worldsize.agent.channel import HeadChannel

TOKEN = "secret"
SLEEPING = "import pathlib, time\nwhile not pathlib.Path('go').exists(): time.sleep(0.05)\n"


class Head:
    """A head's channel with its selector, as an agent has them."""

    def __init__(self, nodes: int) -> None:
        self.selector = selectors.DefaultSelector()
        listener = socket.create_server(("127.0.0.1", 0), backlog=200)
        listener.setblocking(False)
        self.address = listener.getsockname()
        self.channel = HeadChannel(listener, TOKEN, nodes, self.selector)

    def turn(self, seconds: float = 0.1) -> None:
        for key, _ in self.selector.select(seconds):
            key.data()

    def connect(self) -> socket.socket:
        return socket.create_connection(self.address)


def hello(node_rank: int = 1, **changes: object) -> bytes:
    said = {"kind": "hello", "node_rank": node_rank, "token": TOKEN, "host": ["n", 1, "", []], **changes}
    return json.dumps(said).encode() + b"\n"


def test_a_stranger_who_is_dismissed_in_the_turn_that_heard_him() -> None:
    """Found by review: 66 idle connections, then one more and a byte on each of the old: the agent died."""
    head = Head(nodes=2)
    old = []
    for _ in range(66):
        old.append(head.connect())
        head.turn()
    new = head.connect()
    for each in old:
        each.send(b"x")
    for _ in range(20):
        head.turn()
    member = head.connect()
    member.send(hello())
    assert wait_for(lambda: head.turn(0.01) or head.channel.take())
    for each in (new, member, *old):
        each.close()


@pytest.mark.parametrize(
    "changes",
    [
        {"host": None},
        {"host": ["n", "many", "", []]},
        {"host": ["n", 1, "", ["x"]]},
        {"host": {"name": 1}},
        {"host": ["n", 1e400, "", []]},
        {"node_rank": None},
        {"node_rank": 10**30},
        {"node_rank": [1]},
    ],
)
def test_nonsense_ends_no_more_than_its_own_connection(changes: dict[str, object]) -> None:
    head = Head(nodes=2)
    bad, good = head.connect(), head.connect()
    bad.send(hello(**changes))
    for _ in range(3):
        head.turn()
    assert bad.recv(1) == b"" and head.channel.take() == []
    good.send(hello())
    assert wait_for(lambda: head.turn(0.01) or head.channel.take())


FLOOD = """
import socket, sys, time
port = int(sys.argv[1])
with open("/proc/net/tcp") as file:
    lines = [line.split() for line in list(file)[1:]]
assert any(words[3] == "0A" and int(words[1].rsplit(":", 1)[1], 16) == port for words in lines), "all can see the port"
old = []
for _ in range(80):
    try:
        old.append(socket.create_connection(("127.0.0.1", port), 1))
        time.sleep(0.01)
    except OSError:
        pass
for _ in range(3):
    socket.create_connection(("127.0.0.1", port), 1)
    for each in old:
        try:
            each.send(b"x")
        except OSError:
            pass
    time.sleep(0.2)
"""


def test_a_flood_of_strangers_does_not_end_a_run(victim: Cli, attacker: Person) -> None:
    """Found by review: any user of the machine ended any run of several nodes by that."""
    victim.write("sleep.py", SLEEPING)
    run = victim.submit("-w", "2x1", "--", "python", "sleep.py")
    wait_for(lambda: victim.begun(run))
    port = json.loads(victim.read(run, "attempt-0", "rendezvous.json"))["control_port"]
    attacker.python(FLOOD, str(port))
    Path(victim.path(run, "code", "go")).touch()
    assert victim("wait", run).code == 0, victim.read(run, "logs", "conductor.log")
