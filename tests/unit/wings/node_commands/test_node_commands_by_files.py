"""The client's side of a node command in files: what it hears, when it stops waiting. Nodes are files here."""

from __future__ import annotations

import os
import threading
import time
from pathlib import Path

import pytest
from driver import wait_for

from worldsize.compute.capabilities import NodeEvent, NodeStartStatus
from worldsize.errors import StorageError, SubmitAgain, SubmitRejected
from worldsize.plan.run_paths import NODE_PROGRAM_FILE
from worldsize.wings.node_commands import by_files
from worldsize.wings.node_commands.agent import transports
from worldsize.wings.node_commands.agent.run_command import line_of
from worldsize.wings.node_commands.agent.transports import node_file_name
from worldsize.wings.node_commands.by_files import (
    LAG,
    PATIENCE,
    SILENCE,
    FileCommandStream,
    is_lost,
)
from worldsize.wings.node_commands.by_process import GRACE
from worldsize.wings.node_commands.files import new_command_name, write_command_directory, write_lease


@pytest.fixture
def directory(tmp_path: Path) -> str:
    """The directory of a command for nodes 0 and 1."""
    directory = str(tmp_path / new_command_name())
    write_command_directory(directory, {"argv": ["true"], "nodes": [0, 1], "grace": 5.0})
    return directory


def tell(directory: str, node: int, *lines: bytes) -> None:
    with open(os.path.join(directory, node_file_name(node)), "ab") as file:
        file.write(b"".join(lines))


def up(node: int) -> bytes:
    return line_of(node, "up", b"host-%d" % node)


def end(node: int, code: int = 0) -> bytes:
    return line_of(node, "end", code)


def heard(stream: FileCommandStream, seconds: float = 10.0) -> list[NodeEvent]:
    """Everything until the end."""
    found: list[NodeEvent] = []
    deadline = time.monotonic() + seconds
    while (said := stream.read_events(0.1)) is not None:
        assert time.monotonic() < deadline
        found += said
    return found


def test_a_command_is_there_as_a_whole_or_not_at_all(tmp_path: Path) -> None:
    directory = tmp_path / "a" / "b"
    write_command_directory(str(directory), {"nodes": [3]})
    assert sorted(os.listdir(directory)) == ["lease", "node-0003", "order.json", NODE_PROGRAM_FILE]
    assert {file.stat().st_mode & 0o777 for file in directory.iterdir()} == {0o600}
    with pytest.raises(StorageError):
        write_command_directory(str(directory), {"nodes": [3]})
    assert os.listdir(tmp_path / "a") == ["b"]


def test_a_lease_changes_in_place(directory: str) -> None:
    lease = os.path.join(directory, "lease")
    inode, size = os.stat(lease).st_ino, os.stat(lease).st_size
    for word in ("1", "2", "stop"):
        write_lease(directory, word)
        with open(lease) as file:
            assert file.read().strip() == word
        assert (os.stat(lease).st_ino, os.stat(lease).st_size) == (inode, size)


def test_it_hears_all_nodes_and_cleans_up(directory: str) -> None:
    released: list[bool] = []
    stream = FileCommandStream(directory, [0, 1], NodeStartStatus, released.append)
    tell(directory, 0, up(0), end(0, 3))
    tell(directory, 1, up(1), b"\n", end(1))
    found = heard(stream)
    assert {(said.node, said.kind) for said in found} >= {(0, "up"), (0, "end"), (1, "up"), (1, "end")}
    assert stream.read_events(0) is None
    stream.close()
    stream.close()
    assert released == [True] and not os.path.exists(directory)


def test_a_note_is_told_when_it_is_another_one(directory: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(by_files, "_LOOK", 0.01)
    said: list[str] = [""]
    asked: list[str] = []
    found: list[NodeEvent] = []

    def status() -> NodeStartStatus:
        asked.append(said[0])
        return NodeStartStatus(begun=False, note=asked[-1])

    def heard(note: str) -> None:
        """`note`, once it has been said twice."""
        said[0] = note
        del asked[:]
        wait_for(lambda: asked.count(note) > 1)
        found.extend(stream.read_events(0.0) or [])

    stream = FileCommandStream(directory, [0, 1], status)
    for note in ("", "queued", "", "queued", "waits for nodes"):
        heard(note)
    assert found == [NodeEvent(-1, "note", text) for text in (b"queued", b"waits for nodes")]
    stream.close()


def test_the_lease_is_renewed_whether_or_not_anybody_listens(directory: str) -> None:
    stream = FileCommandStream(directory, [0, 1], lambda: NodeStartStatus(begun=False))
    seen = set()

    def renewed_twice() -> bool:
        with open(os.path.join(directory, "lease")) as file:
            seen.add(file.read())
        return len(seen) >= 3

    wait_for(renewed_twice)
    stream.stop()
    with open(os.path.join(directory, "lease")) as file:
        assert file.read().split()[0] == transports.STOP
    stream.close()


def test_a_node_that_is_gone_is_not_waited_for(directory: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(by_files, "LAG", 0.2)
    gone = NodeStartStatus(gone={1: "task 2 failed: python3: not found"})
    stream = FileCommandStream(directory, [0, 1], lambda: gone)
    tell(directory, 0, up(0), end(0))
    found = heard(stream)
    assert [said for said in found if said.kind == "lost"] == [
        NodeEvent(1, "lost", b"task 2 failed: python3: not found")
    ]
    assert {said.node for said in found if said.kind == "end"} == {0}
    stream.close()


def test_no_node_at_all_is_an_error(directory: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(by_files, "LAG", 0.2)
    stream = FileCommandStream(directory, [0, 1], lambda: NodeStartStatus(gone={0: "not found", 1: "not found"}))
    with pytest.raises(SubmitRejected, match="nodes 0,1: not found"):
        heard(stream)
    stream.close()
    assert stream.read_events(0) is None


def test_what_the_compute_refused_is_raised(directory: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(by_files, "LAG", 0.2)

    def refuse() -> NodeStartStatus:
        raise SubmitRejected("there is no node called X", "job 14")

    stream = FileCommandStream(directory, [0, 1], refuse)
    with pytest.raises(SubmitRejected, match="no node called X"):
        heard(stream)
    stream.close()


def test_what_is_refused_no_longer_by_the_time_it_is_looked_at(directory: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(by_files, "_LOOK", 0.01)
    looked_at = threading.Event()

    class Withdrawn(SubmitRejected):
        def __bool__(self) -> bool:
            looked_at.set()
            wait_for(lambda: stream._refused is None)
            return True

    def status() -> NodeStartStatus:
        if looked_at.is_set():
            return NodeStartStatus()
        raise Withdrawn("the head is too old", "job 14")

    stream = FileCommandStream(directory, [0, 1], status)
    wait_for(lambda: stream._refused is not None)
    assert stream.read_events(0.0) == []
    stream.close()


def test_a_node_that_fell_silent_is_lost_once_it_matters(directory: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(by_files, "SILENCE", 0.5)

    def away() -> NodeStartStatus:
        raise SubmitAgain("the head does not answer")

    stream = FileCommandStream(directory, [0, 1], away)
    tell(directory, 0, up(0), end(0))
    tell(directory, 1, up(1))
    found = heard(stream)
    assert {said.node for said in found if said.kind == "end"} == {0}
    assert [said.node for said in found if said.kind == "lost"] == [1]
    stream.close()


def test_what_waits_in_a_queue_is_stopped_at_once(directory: str) -> None:
    released: list[bool] = []
    stream = FileCommandStream(directory, [0, 1], lambda: NodeStartStatus(begun=False), released.append)
    assert stream.read_events(0.1) == []
    stream.stop()
    assert heard(stream, 1.0) == []
    stream.close()
    assert released == [False]


def test_close_asks_for_an_end_at_once_before_anything_is_released(directory: str) -> None:
    words = []

    def release(ended: bool) -> None:
        with open(os.path.join(directory, "lease")) as file:
            words.append((file.read().split()[0], ended))

    stream = FileCommandStream(directory, [0, 1], lambda: NodeStartStatus(begun=False), release)
    stream.stop()
    stream.close()
    assert words == [(transports.NOW, False)] and not os.path.exists(directory)


# when a node is lost

NOT_STOPPED = None


@pytest.mark.parametrize(
    ("up", "begun", "gone", "stopped_for", "limit"),
    [
        (True, True, False, NOT_STOPPED, SILENCE),
        (True, True, True, NOT_STOPPED, LAG),
        (False, True, False, NOT_STOPPED, PATIENCE),
        (False, True, True, NOT_STOPPED, LAG),
        (True, True, False, GRACE + 6.0, SILENCE),
        (False, True, False, GRACE + 6.0, PATIENCE),
    ],
    ids=["silent", "silent, and known to be gone", "does not begin", "known never to begin", "is to stop",
         "does not begin, and is to stop"],
)  # fmt: skip
def test_a_node_is_lost_after_a_silence(
    up: bool, begun: bool, gone: bool, stopped_for: float | None, limit: float
) -> None:
    found = [is_lost(up, begun, gone, silence, stopped_for) for silence in (0.0, limit, limit + 0.1)]
    assert found == [False, False, True]


@pytest.mark.parametrize("silence", [0.0, 1e9])
def test_who_was_told_to_stop_is_not_waited_for_much_longer_than_the_grace(silence: float) -> None:
    assert is_lost(True, True, False, silence, GRACE + 6.1)
    assert is_lost(False, True, False, silence, GRACE + 6.1)


def test_who_waits_in_a_queue_is_not_waited_for_once_it_is_to_stop() -> None:
    assert not is_lost(False, False, False, 0.0, NOT_STOPPED)
    assert is_lost(False, False, False, 0.0, 0.0)


def test_the_silence_of_who_waits_in_a_queue_does_not_count(directory: str) -> None:
    stream = FileCommandStream(directory, [0, 1], lambda: NodeStartStatus(begun=False))
    stream._files[0].silence.seconds = 10 * PATIENCE
    assert stream.read_events(0.1) == []
    assert stream._files[0].silence.seconds == 0.0 and not stream._files[0].is_over
    stream.close()
