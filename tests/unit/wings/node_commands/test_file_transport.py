"""What a node command in files hears of whoever asked for it, and tells them: by a clock that the tests move."""

from __future__ import annotations

import json
import os
import resource
import signal
from collections.abc import Iterator

import pytest
from clocks import Clock

from worldsize.wings.node_commands.agent import run_command, transports
from worldsize.wings.node_commands.agent.run_command import PIECE, line_of
from worldsize.wings.node_commands.agent.transports import NOW, STOP, FileTransport, Silence
from worldsize.wings.node_commands.by_files import NodeFile
from worldsize.wings.node_commands.files import write_command_directory, write_lease

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
        write_lease(self.directory, "%s %d" % (word or "go", self.count))

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

    @property
    def path(self) -> str:
        return os.path.join(self.directory, "node-0000")

    def texts(self) -> list[bytes]:
        """The lines in the node's file, signs of life left out."""
        return [line for line in self.lines() if line]

    def lines(self) -> list[bytes]:
        with open(self.path, "rb") as file:
            return file.read().splitlines()


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
    assert set(node.polls(12 * LEASE - 1)) == {""}
    assert node.polls(2)[-1] == STOP and node.transport.is_abandoned


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
    assert not node.transport.wait() and not node.transport.is_abandoned


def test_the_program_tells_that_it_has_not_begun(node: Node, tmp_path) -> None:
    order = os.path.join(node.directory, "order.json")
    with open(order) as file:
        found = json.load(file)
    argv = ["touch", str(tmp_path / "executed")]
    with open(order, "w") as file:
        json.dump({**found, "argv": argv, "plan": None, "variable": None, "lease": 60.0}, file)
    node.renew(NOW)
    assert run_command.main([node.directory, "0"]) == 143
    assert [line.split()[2] for line in node.texts()] == [b"up", b"end"] and node.texts()[1].endswith(b" 143")
    assert not os.path.exists(tmp_path / "executed")


# signs of life, and last words


def test_each_change_of_the_lease_is_answered_by_a_sign_of_life(node: Node) -> None:
    node.begin()
    before = len(node.lines())
    node.polls(10, renewed=True)
    assert node.lines()[before:] == [b""] * 20
    node.polls(3)
    assert len(node.lines()) == before + 20


def test_what_is_told_is_there_with_the_next_poll_and_the_last_of_it_at_the_end(node: Node) -> None:
    node.begin()
    node.transport.send(b"first\n")
    assert node.texts() == []
    node.poll()
    assert node.texts() == [b"first"]
    node.transport.send(b"last\n")
    node.transport.close()
    assert node.texts() == [b"first", b"last"] and os.path.exists(node.directory)


def test_what_is_told_piece_by_piece_is_written_twenty_times_a_second_at_most(node: Node) -> None:
    """Each writing opens and closes the file, which a file server answers."""
    node.begin()
    sizes = set()
    for number in range(100):
        node.transport.send(b"%d\n" % number)
        node.poll(0.01)
        sizes.add(os.path.getsize(node.path))
    assert 10 <= len(sizes) <= 21
    node.transport.close()
    assert node.texts() == [b"%d" % number for number in range(100)]


def test_last_words_that_cannot_be_written_keep_nobody_once_the_client_has_gone(node: Node) -> None:
    transport = FileTransport(node.directory, 0, LEASE, None, FastClock())
    os.unlink(node.path)
    os.mkdir(node.path)
    transport.send(b"last\n")
    transport.close()
    assert transport.is_abandoned


@pytest.fixture
def full_disk() -> Iterator[int]:
    """Nobody may write more than so many bytes into a file."""
    limit = 100_000
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (limit, before[1]))
    yield limit
    resource.setrlimit(resource.RLIMIT_FSIZE, before)


def test_what_a_full_disk_does_not_take_is_kept_and_no_more_than_a_mebibyte_of_it(node: Node, full_disk: int) -> None:
    node.begin()
    sent = []
    while node.transport.has_room:
        sent.append(line_of(0, "out", os.urandom(PIECE)))
        node.transport.send(sent[-1])
        node.poll(0.01)
    assert os.path.getsize(node.path) == full_disk
    assert full_disk + (1 << 20) <= sum(map(len, sent)) < full_disk + (1 << 20) + 2000
    node.renew(STOP)
    assert node.poll() == STOP, "it hears on"
    resource.setrlimit(resource.RLIMIT_FSIZE, (resource.getrlimit(resource.RLIMIT_FSIZE)[1],) * 2)
    node.poll()
    assert node.texts() == [line[:-1] for line in sent] and node.transport.has_room


def test_what_is_told_is_read_as_it_was(node: Node) -> None:
    """Bytes of every kind; a character or a line may be cut by a reading."""
    node.begin()
    data = bytes(range(256)) * 3000 + "ä€😀".encode() * 1000
    reader, got = NodeFile(node.directory, 0), bytearray()
    for start in range(0, len(data), 7777):
        for piece in range(start, min(start + 7777, len(data)), PIECE):
            node.transport.send(line_of(0, "out", data[piece : min(piece + PIECE, start + 7777)]))
        node.renew()
        node.poll()
        got += b"".join(said.data for said in reader.read_events(node.clock.now))
    assert got == data


def test_a_directory_is_removed_by_whoever_is_last(tmp_path) -> None:
    directory = tmp_path / "command"
    directory.mkdir()
    (directory / "order.json").touch()
    for _ in range(2):
        transports.remove_directory(str(directory))
        assert not os.path.exists(directory)


# silence


def test_of_the_time_between_two_looks_a_second_counts_at_most() -> None:
    silence = Silence()
    for now in (5.0, 5.5, 6.5, 99.0):
        silence.look(now, False)
    assert silence.seconds == 2.5
    silence.look(100.0, False, 0.5)
    assert silence.seconds == 3.0
    silence.look(101.0, True)
    assert silence.seconds == 0.0
