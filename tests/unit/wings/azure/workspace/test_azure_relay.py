"""What a node sends of its files: in which order, when, at which cost, and what happens when its log takes nothing."""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from relayed_node import KEY, LAYOUT, RelayedNode

from worldsize.plan.run_paths import RunPaths
from worldsize.wings.azure.agent import relay as relay_module
from worldsize.wings.azure.agent.node_files import NodeFiles
from worldsize.wings.azure.agent.relay import HOLD, Relay

RANK_LOG = "logs/rank-00003.log"


@pytest.fixture
def node(tmp_path: Path) -> RelayedNode:
    return RelayedNode(tmp_path)


def plain_lines(node: RelayedNode) -> list[bytes]:
    """Those of ranks, without their codes."""
    return [line.rpartition(b" #")[0] for line in node.log.read_bytes().splitlines() if line.startswith(b"[")]


def test_people_see_lines_of_ranks_in_the_nodes_log(node: RelayedNode) -> None:
    node.write(RANK_LOG, b"epoch 1\nepoch 2\n")
    node.write("events/node-0001.jsonl", b'{"event":"ranks_started"}\n')
    node.send()
    assert plain_lines(node) == [b"[3] epoch 1", b"[3] epoch 2"]
    assert b"ranks_started" in node.log.read_bytes()
    node.read()
    assert node.received() == node.sent()


def test_a_node_sends_what_it_writes_itself_and_nothing_else(node: RelayedNode) -> None:
    own = [
        *("events/node-0001.jsonl", "exit/node-0001.json", "samples/node-0001.jsonl", "facts/node-0001.json"),
        *("metrics/files-0001.jsonl", "metrics/rank-00002.jsonl", "errors/rank-00003.json", RANK_LOG),
        *("errors/rank-00003.json.torchelastic", "logs/agent-0001.log", "logs/torchrun-0001.log"),
        "logs/tensor_board-0001.log",
    ]
    foreign = [
        *("rendezvous.json", "check.json", "hostfile", "launch/x", "disks/y", "errands/a/order.json"),
        *("events/node-0000.jsonl", "logs/rank-00000.log", "exit/node-0001.json.spare", "exit/node-0001.json.a.tmp"),
        *("logs/rank-0001.log", "logs/-0001.log", "logs/agent-0000.log", "logs/conductor.log", "logs/x"),
    ]
    for name in (*own, *foreign):
        node.write(name, b"{}\n")
    os.mkdir(os.path.join(node.node.logs_dir, "rank-00002.log"))
    os.symlink("/etc/passwd", os.path.join(node.node.metrics_dir, "rank-00003.jsonl"))
    node.pass_on()
    assert sorted(node.received()) == sorted(own)
    assert "check.json" in NodeFiles(0, [0]) and "check.json" not in NodeFiles(1, [2])


def test_a_directory_that_is_a_link_is_not_entered(node: RelayedNode, tmp_path: Path) -> None:
    os.rmdir(node.node.errors_dir)
    (tmp_path / "elsewhere").mkdir()
    (tmp_path / "elsewhere/rank-00003.json").write_text("{}")
    os.symlink(tmp_path / "elsewhere", node.node.errors_dir)
    node.pass_on()
    assert node.received() == {}


def test_a_line_waits_for_its_end(node: RelayedNode) -> None:
    node.write(RANK_LOG, b"one\n 10%")
    node.pass_on()
    assert node.received()[RANK_LOG] == b"one\n"
    node.now += HOLD - 0.1
    node.write(RANK_LOG, b"\r 20%")
    node.pass_on()
    assert node.received()[RANK_LOG] == b"one\n"
    node.now += 0.2
    node.pass_on()
    assert node.received()[RANK_LOG] == b"one\n 10%\r 20%"
    node.write(RANK_LOG, b"\r 30% done\nend\n")
    node.pass_on()
    assert node.received() == node.sent()
    assert plain_lines(node) == [b"[3] one", b"[3] end"]


def test_a_long_line_does_not_wait(node: RelayedNode) -> None:
    node.write(RANK_LOG, b"x" * 200_000)
    node.pass_on()
    assert len(node.received()[RANK_LOG]) == 3 << 16
    node.relay.finish()
    node.read()
    assert node.received() == node.sent()


def test_a_step_does_a_bounded_part_of_the_work(node: RelayedNode) -> None:
    line = b"x" * 99 + b"\n"
    for rank in (2, 3):
        node.write("logs/rank-%05d.log" % rank, line * 5000)
    assert node.relay.step()
    assert 2 * 60_000 < node.log.stat().st_size < 2 * 90_000
    node.read()
    assert {len(data) > 60_000 for data in node.received().values()} == {True}, "every rank has its share"


def test_exit_records_come_after_what_was_there_before(node: RelayedNode) -> None:
    node.write(RANK_LOG, (b"x" * 99 + b"\n") * 4000 + b"no end")
    node.write("errors/rank-00003.json", b'{"type":"ValueError"}')
    node.replace("exit/node-0001.json", b'{"code":1}')
    node.send()
    log = node.log.read_bytes()
    assert log.count(b"exit/node-0001.json") == 1
    at = log.index(b"exit/node-0001.json")
    assert at > log.rindex(b"rank-00003.log") and at > log.rindex(b"[3] x") and at > log.index(b"ValueError")
    node.read()
    assert node.received() == node.sent()


def test_files_that_shrink_or_are_replaced_are_sent_anew(node: RelayedNode) -> None:
    node.write(RANK_LOG, b"first\nsecond\n")
    node.pass_on()
    node.write(RANK_LOG, b"1\n", "wb")
    node.pass_on()
    assert node.received() == {RANK_LOG: b"1\n"}
    node.write(RANK_LOG, b"", "wb")
    node.pass_on()
    assert node.received() == {RANK_LOG: b""}
    node.write("logs/new", b"another file of the name\n")
    os.rename(node.node.logs_dir + "/new", node.node.rank_log(3))
    node.pass_on()
    assert node.received() == node.sent()


def test_files_that_are_replaced_are_sent_as_a_whole(node: RelayedNode) -> None:
    facts = "facts/node-0001.json"
    for data in (b"", b'{"gpus":1}', b'{"gpus":2}', os.urandom(100_000), b"{}"):
        node.write(facts, b"", "ab")
        node.replace(facts, data)
        node.pass_on()
        assert node.received()[facts] == data
    node.write(facts, b"\0" * ((8 << 20) + 1), "wb")
    node.pass_on()
    assert node.received()[facts] == b"{}", "one of so many bytes is no record"


def test_a_quiet_step_looks_at_each_file_once_and_opens_none(
    node: RelayedNode, monkeypatch: pytest.MonkeyPatch
) -> None:
    for rank in (2, 3):
        node.write("logs/rank-%05d.log" % rank, b"line\n 10%")
    node.write("exit/node-0001.json.spare", b"{}")
    node.write("facts/node-0001.json", b"{}")
    node.send()
    looks: Counter[str] = Counter()
    opened: list[str] = []
    look, status = os.open, relay_module._status

    def counted_open(path: str, flags: int, mode: int = 0o777, *, dir_fd: int | None = None) -> int:
        if not flags & os.O_DIRECTORY:
            opened.append(path)
        return look(path, flags, mode, dir_fd=dir_fd)

    def counted_status(entry: Any) -> Any:
        looks[entry.name] += 1
        return status(entry)

    monkeypatch.setattr(os, "open", counted_open)
    monkeypatch.setattr(relay_module, "_status", counted_status)
    size = node.log.stat().st_size
    assert not node.relay.step()
    assert opened == [] and dict(looks) == dict.fromkeys(["rank-00002.log", "rank-00003.log", "node-0001.json"], 1)
    assert node.log.stat().st_size == size


# the log's other end


@pytest.fixture
def pipe() -> Iterator[tuple[int, int]]:
    reader, writer = os.pipe()
    os.set_blocking(reader, False)
    yield reader, writer
    for each in (reader, writer):
        try:
            os.close(each)
        except OSError:
            pass


def relay_into(out: int, paths: RunPaths, **more: Any) -> Relay:
    return Relay(paths, 1, [rank.rank for rank in LAYOUT[1].ranks], out, KEY, **more)


def read_all(reader: int) -> bytes:
    parts = []
    while True:
        try:
            parts.append(os.read(reader, 1 << 20))
        except BlockingIOError:
            return b"".join(parts)


@pytest.mark.parametrize("blocking", [True, False])
def test_a_log_that_takes_no_more_is_written_later(node: RelayedNode, pipe: tuple[int, int], blocking: bool) -> None:
    reader, writer = pipe
    os.set_blocking(writer, blocking)
    node.write(RANK_LOG, b"".join(b"%099d\n" % number for number in range(5000)))
    relay, log = relay_into(writer, node.node), b""
    for _ in range(3):
        assert not relay.step(), "it does not wait, and nothing can be done at once"
    for _ in range(1000):
        relay.step()
        more = read_all(reader)
        log += more
        if not more:
            break
    node.log.write_bytes(log)
    node.read()
    assert node.received() == node.sent()


def test_lines_reach_a_pipe_in_portions_that_it_takes_as_one(
    node: RelayedNode, pipe: tuple[int, int], monkeypatch: pytest.MonkeyPatch
) -> None:
    node.write(RANK_LOG, b"x" * 500 + b"\n" + b"\0" * 5000 + b"y\n" * 10)
    written: list[bytes] = []
    write = os.write

    def noted_write(out: int, data: bytes) -> int:
        written.append(data)
        return write(out, data)

    monkeypatch.setattr(os, "write", noted_write)
    relay_into(pipe[1], node.node).finish()
    assert written and all(len(data) <= 4096 and data.endswith(b"\n") for data in written)


def test_nobody_who_reads_ends_nothing(node: RelayedNode, pipe: tuple[int, int]) -> None:
    node.write(RANK_LOG, b"line\n" * 1000)
    os.close(pipe[0])
    relay = relay_into(pipe[1], node.node)
    assert not relay.step() and not relay.step()
    relay.finish()
    closed = relay_into(os.open(os.devnull, os.O_RDONLY), node.node)
    assert not closed.step()
    closed.finish()


def test_the_end_waits_for_the_reader_for_a_while(node: RelayedNode, pipe: tuple[int, int]) -> None:
    node.write(RANK_LOG, (b"x" * 99 + b"\n") * 5000)
    pauses: list[float] = []

    def pause(seconds: float) -> None:
        pauses.append(seconds)
        node.now += seconds

    relay_into(pipe[1], node.node, clock=lambda: node.now, sleep=pause).finish(patience=3)
    assert 2.9 < sum(pauses) < 3.1 and min(pauses) >= 0
    log = read_all(pipe[0])

    def drain(seconds: float) -> None:
        nonlocal log
        log += read_all(pipe[0])

    relay_into(pipe[1], node.node, clock=lambda: node.now, sleep=drain).finish()
    node.log.write_bytes(log + read_all(pipe[0]))
    node.read()
    assert node.received() == node.sent()


def test_a_disk_that_is_full_for_a_while(node: RelayedNode, monkeypatch: pytest.MonkeyPatch) -> None:
    node.write(RANK_LOG, b"line\n" * 1000)
    write, left = os.write, [5000]

    def scarce_write(out: int, data: bytes) -> int:
        if left[0] <= 0:
            raise OSError(28, os.strerror(28))
        part = data[: left[0]]
        left[0] -= len(part)
        return write(out, part)

    monkeypatch.setattr(os, "write", scarce_write)
    assert not node.relay.step() and not node.relay.step()
    left[0] = 1 << 30
    node.relay.finish()
    monkeypatch.undo()
    node.read()
    assert node.received() == node.sent()
