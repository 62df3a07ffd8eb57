"""What a head sends to many nodes at once, on real connections in this process."""

from __future__ import annotations

import json
import os
import resource
import selectors
import socket
from collections.abc import Iterator

import pytest
from clocks import Clock

from worldsize.agent.control import link as links
from worldsize.agent.control.channel import HELLO, HeadChannel, MemberChannel
from worldsize.agent.control.link import MAX_LINE, longest_line
from worldsize.agent.control.peers import HeadPeers
from worldsize.agent.control.ports import PortReservation
from worldsize.agent.control.rendezvous import HeadResources, Rendezvous
from worldsize.plan.rank_variables import Host

TOKEN = "5ecre7" * 5
NODE = ["n", 1, "", []]


class Meeting:
    """A head and its members, which have joined. `heard`: what each member has got."""

    def __init__(self, members: int, nodes: int | None = None) -> None:
        self.clock = Clock()
        self.selector = selectors.DefaultSelector()
        self.listener = socket.create_server(("127.0.0.1", 0))
        self.listener.setblocking(False)
        self.head = HeadChannel(self.listener, TOKEN, members + 1, self.selector, self.clock)
        at = self.listener.getsockname()
        limit = longest_line(nodes or members + 1)
        self.members = [MemberChannel(at, TOKEN, self.selector, self.clock, limit) for _ in range(members)]
        self.heard: list[list[dict[str, object]]] = [[] for _ in self.members]
        for node_rank, member in enumerate(self.members, 1):
            assert member.connect(1.0)
            member.send(HELLO, node_rank=node_rank, host=NODE)
        while not all(each.connected for each in self.members):
            self.turn()

    def turn(self) -> None:
        """All that can arrive by itself does."""
        while found := self.selector.select(0):
            for key, _ in found:
                if key.fileobj.fileno() >= 0:  # type: ignore[union-attr]
                    key.data()
        self.head.take()
        for member, heard in zip(self.members, self.heard, strict=True):
            heard += member.take()

    def close(self) -> None:
        for each in (self.head, *self.members):
            each.close()
        self.selector.close()


@pytest.fixture
def meeting() -> Iterator[type[Meeting]]:
    made: list[Meeting] = []

    class Kept(Meeting):
        def __init__(self, members: int, nodes: int | None = None) -> None:
            made.append(self)
            super().__init__(members, nodes)

    yield Kept
    for each in made:
        each.close()


def test_a_message_to_all_nodes_is_made_and_hashed_once(meeting, monkeypatch: pytest.MonkeyPatch) -> None:
    run = meeting(5)
    made: list[bytes] = []
    encode = links.encode

    def counted(kind: str, fields: dict[str, object]) -> links.Message:
        made.append(kind.encode())
        return encode(kind, fields)

    monkeypatch.setattr("worldsize.agent.control.channel.encode", counted)
    monkeypatch.setattr(links, "encode", counted)
    run.head.send("start", hosts=[NODE] * 5)
    assert made == [b"start"]
    run.turn()
    assert run.heard == [[{"kind": "start", "hosts": [NODE] * 5}]] * 5


def test_what_a_socket_has_no_room_for_follows_without_another_message(meeting) -> None:
    """Between machines a socket takes some 50 kB at once: less than what 2,000 nodes are told at the start."""
    run = meeting(3)
    text = "x" * (MAX_LINE - 1000)
    for link in run.head._links.values():
        link.connection.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, 4096)
    run.head.send("told", text=text)
    run.head.send("go")
    while not all(len(heard) == 2 for heard in run.heard):
        assert run.selector.select(5), "somebody has something to do"
        run.turn()
    assert [heard[0]["text"] == text and heard[1]["kind"] == "go" for heard in run.heard] == [True] * 3
    run.turn()
    assert run.selector.select(0) == [], "nobody is woken again and again"


def test_a_node_that_takes_what_it_is_sent_has_not_said_anything_by_that(meeting) -> None:
    run = meeting(1)
    run.head._links[1].connection.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, 4096)
    run.head.send("told", text="x" * (MAX_LINE - 1000))
    run.clock.now += 5.0
    while not run.heard[0]:
        assert run.selector.select(5)
        run.turn()
    assert run.head.silent_nodes(4.0) == [1]


def test_a_node_that_takes_nothing_any_more_ends_no_more_than_its_own_connection(meeting) -> None:
    run = meeting(2)
    gone, other = run.members
    for link in run.head._links.values():
        link.connection.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, 4096)
    run.head.send("told", text="x" * (MAX_LINE - 1000))
    run.head.drop(1)
    run.head.send("go")
    while len(run.heard[1]) < 2:
        assert run.selector.select(5)
        run.turn()
    assert not gone.connected and other.connected


@pytest.mark.parametrize("nodes", [4, 12_000])
def test_a_line_may_be_as_long_as_the_list_of_all_nodes(meeting, nodes: int) -> None:
    run = meeting(2, nodes)
    hosts = [
        ["a-name-as-clouds-like-them-%05d.internal.example.org" % rank, 128, "", [40000] * 8] for rank in range(nodes)
    ]
    assert nodes < 10 or len(json.dumps(hosts)) > MAX_LINE
    run.head.send("start", hosts=hosts)
    while not all(run.heard):
        assert run.selector.select(5)
        run.turn()
    assert all(heard[0]["hosts"] == hosts for heard in run.heard)


def test_a_line_that_is_longer_than_any_list_of_nodes_ends_the_connection(meeting) -> None:
    run = meeting(1, nodes=2)
    run.head.send("told", text="x" * longest_line(2))
    while not run.heard[0]:
        assert run.selector.select(5)
        run.turn()
    assert [each["kind"] for each in run.heard[0]] == ["gone"]


@pytest.fixture
def waiting() -> Iterator[Meeting]:
    """A head that welcomes nodes after a second, and two members that have not met it yet."""
    run = Meeting.__new__(Meeting)
    run.clock = Clock()
    run.selector = selectors.DefaultSelector()
    run.listener = socket.create_server(("127.0.0.1", 0))
    run.listener.setblocking(False)
    run.head = HeadChannel(run.listener, TOKEN, 4, run.selector, run.clock, patience=1.0)
    at = run.listener.getsockname()
    run.members = [MemberChannel(at, TOKEN, run.selector, run.clock) for _ in range(2)]
    run.heard = [[], []]
    yield run
    run.close()


def greet(run: Meeting, node_rank: int) -> None:
    """This node joins."""
    before = run.head.greeted.get(node_rank)
    member = run.members[node_rank - 1]
    assert member.connect(1.0)
    member.send(HELLO, node_rank=node_rank, host=NODE)
    while run.head.greeted.get(node_rank) == before:
        run.turn()


def are_welcome(run: Meeting, after: float) -> list[bool]:
    """Which of the members have been welcomed so many seconds later."""
    run.clock.now += after
    run.turn()
    run.turn()
    return [each.connected for each in run.members]


def test_nodes_are_welcomed_in_the_order_in_which_they_have_waited(waiting: Meeting) -> None:
    greet(waiting, 1)
    waiting.clock.now += 0.6
    greet(waiting, 2)
    assert are_welcome(waiting, 0.6) == [True, False]
    assert are_welcome(waiting, 0.6) == [True, True]


def test_a_node_that_joins_again_keeps_no_other_one_waiting(waiting: Meeting) -> None:
    greet(waiting, 1)
    waiting.clock.now += 0.2
    greet(waiting, 2)
    waiting.clock.now += 0.6
    waiting.members[0].close()
    waiting.turn()
    greet(waiting, 1)
    assert are_welcome(waiting, 0.6) == [False, True]
    assert are_welcome(waiting, 0.6) == [True, True]


def test_a_head_that_may_open_no_more_files_says_so_where_it_names_who_is_missing(tmp_path) -> None:
    selector, listener = selectors.DefaultSelector(), socket.create_server(("127.0.0.1", 0))
    listener.setblocking(False)
    resources = HeadResources(Rendezvous("127.0.0.1", 0, 0, TOKEN), PortReservation(), listener)
    clock = Clock()
    head = HeadPeers(Host("n0", 1), resources, listener.getsockname(), 3, selector, clock)

    def turn() -> None:
        for key, _ in selector.select(5):
            key.data()
        head.take_verdicts()

    node = socket.create_connection(listener.getsockname())
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (1 + max(map(int, os.listdir("/proc/self/fd"))), hard))
    kept = []
    try:
        with pytest.raises(OSError, match="Too many open files"):
            while True:
                kept.append(os.open(os.devnull, os.O_RDONLY))
        turn()
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
        for each in kept:
            os.close(each)
    assert head.missing_text().endswith(
        ": 1, 2 (the head cannot accept more: Too many open files; see ulimit -Hn there)"
    )
    clock.now += 2.0
    head.take_verdicts()
    turn()
    assert head.missing_text().endswith(": 1, 2"), "it could accept the node meanwhile"
    node.close()
    head.close(None)
    selector.close()
