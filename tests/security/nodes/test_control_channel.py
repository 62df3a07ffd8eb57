"""Connections of strangers to where a run's nodes meet, and strangers who pass for its head."""

from __future__ import annotations

import json
import os
import resource
import socket
from collections.abc import Iterator
from pathlib import Path

import pytest
from driver import Cli, wait_for
from security.heads import HOST, TOKEN, Head, Member, is_closed
from security.people import Person

from worldsize.agent.control.channel import GREETING
from worldsize.agent.control.endpoint import connect, listen
from worldsize.agent.control.link import Link
from worldsize.agent.control.message_proof import HEAD
from worldsize.agent.control.rendezvous import STRANGERS

NONCE = b"0" * 32 + b"\n"
HELLO = json.dumps({"kind": "hello", "node_rank": 1, "host": HOST}).encode()


@pytest.fixture
def head() -> Iterator[Head]:
    head = Head()
    yield head
    head.channel.close()


def test_a_stranger_who_is_dismissed_in_the_turn_that_heard_him(head: Head) -> None:
    """Found by review: 66 idle connections, then one more and a byte on each of the old: the agent died."""
    old = []
    for _ in range(STRANGERS + 2):
        old.append(head.connect())
        head.turn()
    new = head.connect()
    for each in old:
        each.send(b"x")
    for _ in range(20):
        head.turn()
    head.has(head.node())
    for each in (new, *old):
        each.close()


@pytest.mark.parametrize(
    "changes",
    [
        {"host": None},
        {"host": ["n", "many", "", []]},
        {"host": ["n", 1, "", ["x"]]},
        {"host": {"name": 1}},
        {"host": ["n", 1e400, "", []]},
        {"host": ["n", 1, "", [], 0]},
        {"node_rank": None},
        {"node_rank": 10**30},
        {"node_rank": [1]},
        {"node_rank": 0},
        {"node_rank": 2},
    ],
)
def test_nonsense_ends_no_more_than_its_own_connection(head: Head, changes: dict[str, object]) -> None:
    bad = head.node(**changes)
    head.until(lambda: bad.receive() and is_closed(bad.connection))
    assert head.news == []
    head.has(head.node())


@pytest.mark.parametrize(
    "said",
    [
        b"GET / HTTP/1.1\r\n\r\n",
        HELLO + b"\n",
        NONCE + HELLO + b"\n",
        NONCE + b"0" * 64 + b" " + HELLO + b"\n",
        NONCE + b"[" * 10000 + b"\n",
        NONCE + NONCE,
        b"x" * 20000,
        b"\0\xff" * 10000,
        b'{"kind":"verdict","why":"cancel","failure":null}\n',
        HELLO[:-1] + b', "token": "%s"}\n' % TOKEN.encode(),
        TOKEN.encode() + b"\n",
    ],
)
def test_who_cannot_prove_that_he_knows_the_token(head: Head, said: bytes) -> None:
    stranger = head.connect()
    stranger.send(said)
    head.until(lambda: is_closed(stranger))
    assert head.news == [] and not head.channel.hosts


def test_another_runs_token(head: Head) -> None:
    stranger = head.node(token="another")
    head.until(lambda: stranger.receive() and is_closed(stranger.connection))
    assert head.news == []


def test_who_says_nothing_goes_after_a_while(head: Head) -> None:
    silent, half = head.connect(), head.connect()
    half.send(NONCE + b"0" * 40)
    for _ in range(3):
        head.turn()
    head.clock.now += GREETING
    head.turn()
    assert not is_closed(silent) and not is_closed(half)
    head.clock.now += 1
    head.turn()
    assert is_closed(silent) and is_closed(half)


def test_a_node_that_has_greeted_is_not_lost_in_a_flood(head: Head) -> None:
    """Found by review: the oldest connection was dropped unread, and it was a node's."""
    node = head.node()
    head.turn()
    node.receive()
    others = [head.connect() for _ in range(STRANGERS + 8)]
    head.has(node)
    assert (1, "hello") in head.news and (1, "gone") not in head.news
    for each in others:
        each.close()


def test_a_flood_is_taken_in_little_by_little(head: Head) -> None:
    others = [head.connect() for _ in range(100)]
    head.turn()
    assert 0 < len(head.channel._strangers) <= 16
    for _ in range(20):
        head.turn()
    assert len(head.channel._strangers) == STRANGERS + 1
    for each in others:
        each.close()


def test_no_more_descriptors(head: Head) -> None:
    """The listener would be ready for ever: it rests, and then nodes join as before."""
    strangers = [head.connect() for _ in range(3)]
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (1 + max(map(int, os.listdir("/proc/self/fd"))), hard))
    kept = []
    try:
        with pytest.raises(OSError, match="Too many open files"):
            while True:
                kept.append(os.open(os.devnull, os.O_RDONLY))
        head.turn()
        assert not head.channel._strangers and not head.selector.select(0)
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
        for each in kept:
            os.close(each)
    head.clock.now += 2
    head.has(head.node())
    for stranger in strangers:
        stranger.close()


class Tap:
    """Stands between a member and its head, and writes down what each says."""

    def __init__(self, head: Head) -> None:
        self._server = socket.create_server(("127.0.0.1", 0))
        self.address = self._server.getsockname()
        self._head = head
        self._ends: list[socket.socket] = []
        self.said = {"member": b"", "head": b""}

    def turn(self) -> None:
        if not self._ends:
            self._server.settimeout(0)
            try:
                connection, _ = self._server.accept()
            except BlockingIOError:
                return
            self._ends = [connection, self._head.connect()]
        for who, (source, target) in zip(("member", "head"), (self._ends, self._ends[::-1]), strict=True):
            source.setblocking(False)
            try:
                data = source.recv(1 << 16)
            except BlockingIOError:
                continue
            self.said[who] += data
            target.sendall(data)

    def close(self) -> None:
        for each in (self._server, *self._ends):
            each.close()


def test_once_all_have_joined_nobody_is_listened_for(head: Head) -> None:
    """Found by review: connections without end took a quarter of a core of the head's for as long as the run ran."""
    stranger = head.connect()
    head.turn()
    node = head.node()
    head.has(node)
    head.until(lambda: is_closed(stranger))
    with pytest.raises(ConnectionRefusedError):
        head.connect()
    node.send("ready")
    head.until(lambda: (1, "ready") in head.news)


def test_the_token_is_never_on_the_wire_and_what_was_is_worth_nothing() -> None:
    """Found by review: whoever heard one greeting could send orders to nodes, or join in their place."""
    head = Head(nodes=3)
    tap = Tap(head)
    member = Member(tap.address)
    member.greet()
    member.channel.send("ready")

    def turned() -> bool:
        tap.turn()
        member.turn()
        return (1, "ready") in head.news and member.channel.connected

    head.until(turned)
    assert TOKEN.encode() not in tap.said["member"] + tap.said["head"]
    tap.close()
    head.until(lambda: (1, "gone") in head.news)
    head.news.clear()
    again = head.connect()
    again.sendall(tap.said["member"])
    head.until(lambda: is_closed(again))
    assert head.news == []
    member.channel.close()
    head.channel.close()


@pytest.mark.parametrize("first", ["welcome", "start"])
def test_what_a_node_hears_first_is_the_proof_that_it_is_the_head(first: str) -> None:
    """A word of welcome for each would wake them all; where no news comes soon, there is one."""
    head = Head(nodes=3, patience=5.0)
    member = Member(head.address)
    member.greet()

    def turned() -> None:
        head.turn()
        member.turn()

    def joined() -> bool:
        turned()
        return 1 in head.channel.hosts

    wait_for(joined)
    turned()
    assert member.channel.has_unproved_head and not member.channel.connected
    if first == "start":
        head.channel.send("start", hosts=[])
    else:
        head.clock.now += 5.0

    def proved() -> bool:
        turned()
        return member.channel.connected

    wait_for(proved)
    assert [message["kind"] for message in member.channel.take()] == (["start"] if first == "start" else [])
    assert not member.channel.has_unproved_head
    member.channel.close()
    head.channel.close()


def test_a_stranger_who_passes_for_the_head() -> None:
    """Found by review: a member obeyed whoever answered at the head's port. It tries again, and finds the head."""
    fake = socket.create_server(("127.0.0.1", 0))
    port = fake.getsockname()[1]
    member = Member(("127.0.0.1", port))
    member.greet()
    connection, _ = fake.accept()
    pretender = Link(connection, "another", HEAD)
    pretender.send("told", topic="launch", text="id > /tmp/x")

    def found_out() -> bool:
        pretender.receive()
        member.turn()
        return bool(member.channel.trouble)

    wait_for(found_out)
    assert member.channel.take() == [] and not member.channel.connected
    assert "is not the run's head" in member.channel.trouble
    member.greet()
    member.clock.now += GREETING + 1
    assert not member.channel.connect(1) and "has not proved" in member.channel.trouble
    connection.close()
    fake.close()
    head = Head(port=port)
    member.greet()

    def joined() -> bool:
        member.turn()
        return member.channel.connected

    head.until(joined)
    member.channel.close()
    head.channel.close()


def test_virtual_nodes_meet_where_no_other_user_can_come(attacker: Person, tmp_path: Path) -> None:
    """By its mode, wherever it lies: a run that is shared with a group has directories that others can enter."""
    directory = os.path.join(attacker.root, "attempt")
    os.mkdir(directory, 0o777)
    os.chmod(directory, 0o777)
    path = os.path.join(directory, "control.sock")
    with listen(path, 5):
        script = "import socket, sys; socket.socket(socket.AF_UNIX).connect(sys.argv[1])"
        with attacker.start_python(script, path) as process:
            assert b"PermissionError" in process.communicate(timeout=60)[1]
        connect(path, 5).close()
    with pytest.raises(ConnectionRefusedError):
        connect(path, 5)
    os.unlink(path)
    with pytest.raises(ConnectionRefusedError):
        connect(path, 5)


def test_a_run_on_virtual_nodes_listens_at_no_port(victim: Cli) -> None:
    """Wherever its directory lies: a socket's path may have 107 bytes."""
    home = victim.environ["WORLDSIZE_HOME"] = os.path.join(victim.root, "h" * 100)
    run = victim.run("-q", "-w", "3x1", "--", "true")
    attempt = Path(home, "runs", run, "attempt-0")
    assert json.loads((attempt / "rendezvous.json").read_text())["control_port"] == 0
    assert not (attempt / "control.sock").exists()
