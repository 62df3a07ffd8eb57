"""What a client reads of the file in which one node tells of a command (`by_files.NodeFile`)."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from worldsize.wings.node_commands.agent.run_command import line_of
from worldsize.wings.node_commands.agent.transports import UNREADABLE, node_file_name
from worldsize.wings.node_commands.by_files import SILENCE, NodeFile, is_lost

UP = line_of(0, "up", b"host-0")


@pytest.fixture
def directory(tmp_path: Path) -> str:
    """That of a command, with the file of node 0."""
    (tmp_path / node_file_name(0)).touch()
    return str(tmp_path)


def tell(directory: str, *lines: bytes) -> None:
    with open(os.path.join(directory, node_file_name(0)), "ab") as file:
        file.write(b"".join(lines))


def listen(reader: NodeFile, now: float) -> list[tuple[str, bytes]]:
    return [(said.kind, said.data) for said in reader.read_events(now)]


def test_a_reader_reads_whole_lines_once(directory: str) -> None:
    reader = NodeFile(directory, 0)
    assert listen(reader, 0.0) == [] and not reader.has_begun
    line = line_of(0, "out", b"data")
    tell(directory, UP, line[:7])
    assert listen(reader, 1.0) == [("up", b"host-0")] and reader.has_begun
    tell(directory, line[7:], b"\n", b"noise of a file system\n")
    assert listen(reader, 2.0) == [("out", b"data")]
    tell(directory, line_of(0, "end", 4), line_of(0, "out", b"late"))
    assert next((said.kind, said.code) for said in reader.read_events(3.0)) == ("end", 4)
    assert reader.is_over and listen(reader, 4.0) == []


def test_bytes_that_are_not_there_yet_are_read_again(directory: str) -> None:
    """A file system may show a file's size before its content."""
    reader = NodeFile(directory, 0)
    line = UP
    path = os.path.join(directory, node_file_name(0))
    with open(path, "wb") as file:
        file.write(line[:5] + b"\0" * (len(line) - 5))
    assert listen(reader, 0.0) == []
    with open(path, "wb") as file:
        file.write(line)
    assert listen(reader, 1.0) == [("up", b"host-0")]


def test_silence_is_time_in_which_there_was_nothing_to_read(directory: str) -> None:
    reader = NodeFile(directory, 0)
    for now in (0.0, 0.6, 1.2):
        reader.read_events(now)
    assert reader.silence.seconds == pytest.approx(1.2)
    reader.read_events(100.0)
    assert reader.silence.seconds == pytest.approx(2.2), "we were suspended ourselves"
    path = os.path.join(directory, node_file_name(0))
    os.unlink(path)
    os.mkdir(path)
    reader.read_events(101.0)
    assert reader.silence.seconds == pytest.approx(2.2 + UNREADABLE), "the file server did not answer"
    os.rmdir(path)
    tell(directory, b"\n")
    reader.read_events(102.0)
    assert reader.silence.seconds == 0.0


# what is no file of a node


@pytest.mark.parametrize("kind", ["pipe", "huge", "noise", "device"])
def test_what_a_node_cannot_have_written_keeps_nobody(directory: str, kind: str) -> None:
    path = os.path.join(directory, node_file_name(0))
    os.unlink(path)
    if kind == "pipe":
        os.mkfifo(path)
    elif kind == "device":
        os.symlink("/dev/zero", path)
    else:
        with open(path, "wb") as file:
            file.truncate(1 << 40) if kind == "huge" else file.write(b"ws1 x up y\nws1 0 out x\nws1 0 end x\n" + UP)
    found = listen(NodeFile(directory, 0), 0.0)
    assert found == ([("up", b"host-0")] if kind == "noise" else [])


def test_a_file_that_can_never_be_read_is_not_waited_for_without_end(directory: str) -> None:
    path = os.path.join(directory, node_file_name(0))
    tell(directory, UP)
    reader = NodeFile(directory, 0)
    assert listen(reader, 0.0) == [("up", b"host-0")]
    os.unlink(path)
    os.mkfifo(path)
    for now in range(1, 12 * round(SILENCE)):
        assert listen(reader, float(now)) == []
    assert reader.silence.seconds < SILENCE, "a file server may be away for some minutes"
    for now in range(12 * round(SILENCE), 12 * round(SILENCE) + 3):
        listen(reader, float(now))
    assert is_lost(True, True, False, reader.silence.seconds, None)
