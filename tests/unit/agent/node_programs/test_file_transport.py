"""What a node command in files hears of whoever asked for it, and tells them: by a clock that the tests move."""

from __future__ import annotations

import json
import os
import signal
from collections.abc import Iterator

import pytest
from clocks import Clock

from worldsize.agent.node_programs import run_command
from worldsize.agent.node_programs.run_command import AHEAD, NOW, PIECE, SEGMENT, STOP, FileTransport, line_of
from worldsize.compute.node_commands.file_reader import NodeFileReader
from worldsize.compute.node_commands.files import write_command_directory, write_lease

LEASE = 5.0


class Node:
    """Node 0 of a command, and whoever asked for it: the two share a directory and this clock."""

    def __init__(self, directory: str, parent: int | None = None) -> None:
        self.directory = directory
        write_command_directory(directory, {"argv": ["true"], "nodes": [0], "grace": 5.0})
        self.clock = Clock()
        self.transport = FileTransport(directory, 0, LEASE, parent, self.clock)
        self.count = 0

    def renew(self, word: str = "") -> None:
        self.count += 1
        write_lease(self.directory, ("%s %d" % (word, self.count)).strip())

    def poll(self, seconds: float = 0.5) -> str:
        self.clock.now += seconds
        return self.transport.poll()

    def polls(self, seconds: float, renewed: bool = False) -> list[str]:
        """One every half of a second."""
        found = []
        for _ in range(round(2 * seconds)):
            if renewed:
                self.renew()
            found.append(self.poll())
        return found

    def begin(self) -> None:
        """The lease has been seen to change."""
        self.poll()
        self.renew()
        assert self.poll() == ""

    def texts(self) -> list[bytes]:
        """The lines in the node's files, in order."""
        names = sorted(name for name in os.listdir(self.directory) if name.startswith("node-"))
        lines: list[bytes] = []
        for name in names:
            with open(os.path.join(self.directory, name), "rb") as file:
                lines += file.read().splitlines()
        return lines

    def size(self) -> int:
        """Bytes in the files of what is told."""
        names = [name for name in os.listdir(self.directory) if name.startswith("node-")]
        return sum(os.path.getsize(os.path.join(self.directory, name)) for name in names)


@pytest.fixture(autouse=True)
def _handlers() -> Iterator[None]:
    before = signal.getsignal(signal.SIGINT), signal.getsignal(signal.SIGTERM)
    yield
    signal.signal(signal.SIGINT, before[0])
    signal.signal(signal.SIGTERM, before[1])


@pytest.fixture
def node(tmp_path) -> Node:
    return Node(str(tmp_path / "command"))


# the lifeline


def test_nothing_is_wanted_as_long_as_the_lease_changes(node: Node) -> None:
    assert set(node.polls(100, renewed=True)) == {""}


def test_a_lease_that_no_longer_changes_is_a_stop_after_its_time_and_no_sooner(node: Node) -> None:
    node.begin()
    assert set(node.polls(LEASE)) == {""} and not node.transport.is_abandoned
    assert node.poll() == STOP and node.transport.is_abandoned


def test_a_client_that_is_paused_for_less_than_that_is_not_gone(node: Node) -> None:
    node.begin()
    for _ in range(5):
        assert set(node.polls(LEASE - 0.5)) == {""}
        node.renew()
        assert node.poll() == ""


def test_a_client_that_comes_back_is_heard_again(node: Node) -> None:
    """Whoever runs the command was told to stop by then, which stays."""
    node.begin()
    assert node.polls(LEASE + 1)[-1] == STOP
    node.renew()
    assert node.poll() == ""


def test_a_machine_that_slept_takes_nobody_for_gone(node: Node) -> None:
    """Of the time between two readings one second counts at most."""
    node.begin()
    assert [node.poll(3600.0) for _ in range(5)] == [""] * 5
    assert node.poll(3600.0) == STOP


def test_a_file_server_that_does_not_answer_takes_nobody_for_gone_for_long(node: Node) -> None:
    node.begin()
    lease = os.path.join(node.directory, "lease")
    os.unlink(lease)
    os.mkdir(lease)
    assert set(node.polls(12 * LEASE)) == {""}
    assert node.poll() == STOP and node.transport.is_abandoned


def test_a_reading_ends_that(node: Node) -> None:
    node.begin()
    lease = os.path.join(node.directory, "lease")
    for _ in range(3):
        os.unlink(lease)
        os.mkdir(lease)
        assert set(node.polls(12 * LEASE - 1)) == {""}
        os.rmdir(lease)
        open(lease, "w").close()
        node.renew()
        assert node.poll() == ""


def test_a_directory_that_was_removed_is_a_lease_that_no_longer_changes(node: Node) -> None:
    node.begin()
    os.unlink(os.path.join(node.directory, "lease"))
    assert set(node.polls(LEASE)) == {""}
    assert node.poll() == STOP


@pytest.mark.parametrize("word", [STOP, NOW])
def test_what_is_wanted_stands_there_and_stays_while_the_lease_goes_on(node: Node, word: str) -> None:
    node.begin()
    for _ in range(30):
        node.renew(word)
        assert node.poll() == word


def test_at_once_comes_after_a_stop(node: Node) -> None:
    node.begin()
    node.renew(STOP)
    assert node.poll() == STOP
    node.renew(NOW)
    assert node.poll() == NOW


def test_a_scheduler_that_interrupts_us_wants_a_stop(node: Node) -> None:
    node.begin()
    signal.raise_signal(signal.SIGINT)
    node.renew()
    assert node.poll() == STOP
    node.renew(NOW)
    assert node.poll() == NOW


def test_it_ends_at_once_with_its_agent(tmp_path) -> None:
    mine, others = Node(str(tmp_path / "mine"), os.getppid()), Node(str(tmp_path / "others"), os.getpid())
    mine.begin()
    others.poll()
    assert (mine.poll(), others.poll()) == ("", NOW)


# before it begins


def test_it_begins_once_the_lease_changes(node: Node) -> None:
    node.poll()
    node.renew()
    assert node.transport.wait()


class FastClock(Clock):
    """One that nobody has to move: a second has passed each time that it is asked."""

    def __call__(self) -> float:
        self.now += 1.0
        return self.now


def test_what_nobody_waits_for_is_never_begun(node: Node) -> None:
    """Its client was killed before the node saw it; or it was left in a directory that a later attempt finds."""
    node.transport = FileTransport(node.directory, 0, LEASE, None, FastClock())
    assert not node.transport.wait()
    node.transport.close()
    assert not os.path.exists(node.directory), "nobody is left to remove it"


def test_what_is_to_stop_before_it_has_begun_is_not_begun(node: Node) -> None:
    node.renew(STOP)
    assert node.transport.wait(), "somebody is there"
    assert node.transport.poll() == STOP, "and wants no command"


def test_the_program_tells_that_it_has_not_begun(node: Node, tmp_path) -> None:
    order = os.path.join(node.directory, "order.json")
    with open(order) as file:
        found = json.load(file)
    argv = ["touch", str(tmp_path / "executed")]
    with open(order, "w") as file:
        json.dump({**found, "argv": argv, "plan": None, "variable": None, "lease": 60.0}, file)
    node.renew(NOW)
    assert run_command.main([node.directory, "0"]) == 143
    assert [line.split()[2:] for line in node.texts()][1:] == [[b"end", b"143"]]
    assert not os.path.exists(tmp_path / "executed")


# signs of life, and last words


def test_it_gives_a_sign_of_life_every_two_seconds(node: Node) -> None:
    node.begin()
    node.polls(20, renewed=True)
    assert 10 <= node.texts().count(line_of(0, "beat", 0)[:-1]) <= 12


def test_it_gives_none_before_anybody_has_shown_to_be_there(node: Node) -> None:
    node.polls(LEASE)
    assert node.texts() == []


def test_what_is_told_is_there_with_the_next_poll_and_the_last_of_it_at_the_end(node: Node) -> None:
    node.begin()
    node.transport.send(b"first\n")
    assert b"first" not in node.texts()
    node.renew()
    node.poll()
    assert node.texts()[-1] == b"first"
    node.transport.send(b"last\n")
    node.transport.close()
    assert node.texts()[-1] == b"last" and os.path.exists(node.directory)


def test_last_words_that_cannot_be_written_keep_nobody_for_long(node: Node) -> None:
    transport = FileTransport(node.directory, 0, 1e9, None, FastClock())
    path = os.path.join(node.directory, "node-0000.0")
    os.unlink(path)
    os.mkdir(path)
    transport.send(b"last\n")
    transport.close()


# long output


def test_what_is_told_does_not_pile_up_and_is_whole(node: Node) -> None:
    """Whoever is not read from tells no more than a few segments, and goes on once the first is removed."""
    node.begin()
    sent = bytearray()
    total = (AHEAD + 3) * SEGMENT

    def tell() -> None:
        while len(sent) < total and node.transport.has_room:
            piece = (b"%08d" % len(sent)) * (PIECE // 8)
            node.transport.send(line_of(0, "out", piece))
            sent.extend(piece)
            if len(sent) % (200 * PIECE) == 0:
                node.renew()
                node.poll(0.1)

    tell()
    assert len(sent) < total and not node.transport.has_room
    for _ in range(20):
        node.renew()
        node.poll(0.1)
    assert not node.transport.has_room, "time alone makes no room"
    assert AHEAD * SEGMENT < node.size() < (AHEAD + 2) * SEGMENT
    reader, got = NodeFileReader(node.directory, 0), bytearray()
    while len(got) < total:
        tell()
        node.renew()
        node.poll(0.1)
        got.extend(b"".join(said.data for said in reader.read_events(node.clock.now) if said.kind == "out"))
        assert node.size() < (AHEAD + 2) * SEGMENT
    assert got == sent
