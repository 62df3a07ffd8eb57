"""The head says where it is over TCP: to who has the run's key, whoever else connects or answers."""

from __future__ import annotations

import hmac
import os
import socket
from collections.abc import Iterator
from pathlib import Path
from threading import Thread

import pytest

from worldsize.agent.control.rendezvous import Rendezvous
from worldsize.common.atomic_files import write_json
from worldsize.plan.run_paths import RunPaths
from worldsize.state.records import ExitRecord, Failure, RankExit, Reason
from worldsize.wings.azure.agent.head_exchange import HeadExchange, ask_head

KEY, OTHER = b"k" * 32, b"o" * 32
FAILED = Failure(Reason.ENVIRONMENT, "setup line 1 ended with code 3", 0, None, 3, 2.0)
QUESTION = b"0" * 32 + hmac.new(KEY, b"ask" + b"0" * 32 + b"1", "sha256").hexdigest().encode() + b"1\n"
PUBLISHED = Rendezvous("10.0.0.4", 29500, 29501, os.urandom(16).hex(), "mpirun")


@pytest.fixture
def head(tmp_path: Path) -> Iterator[HeadExchange]:
    paths = RunPaths(str(tmp_path / "run"))
    os.makedirs(paths.attempt_dir)
    exchange = HeadExchange(paths, "127.0.0.1", 0, KEY)
    try:
        yield exchange
    finally:
        exchange.close()


def publish(tmp_path: Path) -> None:
    write_json(RunPaths(str(tmp_path / "run")).rendezvous, PUBLISHED._asdict())


def end(tmp_path: Path, failure: Failure | None = FAILED, ranks: tuple[RankExit, ...] = ()) -> None:
    paths = RunPaths(str(tmp_path / "run"))
    os.makedirs(paths.exit_dir)
    code = failure.code if failure else 0
    record = ExitRecord(0, "h", 0, 1.0, 2.0, ranks, "failure" if failure else None, failure, code)
    write_json(paths.exit_record(0), record.to_json())


def fetch(port: int, key: bytes = KEY, node_rank: int = 1) -> Rendezvous | None:
    return ask_head("127.0.0.1", port, key, 0, node_rank).rendezvous


def test_a_member_learns_what_the_head_has_published(head: HeadExchange, tmp_path: Path) -> None:
    publish(tmp_path)
    assert fetch(head.port) == PUBLISHED


def test_a_member_that_is_early_asks_again(head: HeadExchange, tmp_path: Path) -> None:
    pauses: list[float] = []

    def sleep(seconds: float) -> None:
        pauses.append(seconds)
        if len(pauses) == 3:
            publish(tmp_path)

    assert ask_head("127.0.0.1", head.port, KEY, 60, sleep=sleep).rendezvous == PUBLISHED
    assert pauses == [0.02, 0.03, pytest.approx(0.045)]


def test_a_member_gives_up_in_time() -> None:
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    clock = iter((0.0, 4.0, 11.0))
    assert ask_head("127.0.0.1", port, KEY, 10, 1, lambda: next(clock), lambda _: None) == (None, None)


def test_nobody_without_the_key_learns_the_token_or_is_believed(head: HeadExchange, tmp_path: Path) -> None:
    publish(tmp_path)
    assert fetch(head.port, OTHER) is None
    for question in (b"0" * 32 + b"\n", QUESTION.replace(b"1\n", b"2\n"), QUESTION):
        with socket.create_connection(("127.0.0.1", head.port)) as connection:
            connection.sendall(question)
            heard = connection.makefile("rb").read()
        assert bool(heard) is (question == QUESTION)
        assert PUBLISHED.token.encode() not in heard and b"29501" not in heard


@pytest.mark.parametrize("said", [b"", b"\n", b"GET / HTTP/1.1\r\n\r\n", b"\xff" * 5000, b"A" * 32 + b"\n"])
def test_strangers_are_sent_away(head: HeadExchange, tmp_path: Path, said: bytes) -> None:
    publish(tmp_path)
    with socket.create_connection(("127.0.0.1", head.port)) as connection:
        connection.sendall(said)
        connection.shutdown(socket.SHUT_WR)
        try:
            assert connection.makefile("rb").read() == b""
        except ConnectionResetError:
            pass
    assert fetch(head.port) == PUBLISHED


@pytest.mark.parametrize("damage", ["nothing", "changed", "short", "repeated", "no JSON"])
def test_an_answer_that_does_not_fit_is_none(head: HeadExchange, tmp_path: Path, damage: str) -> None:
    publish(tmp_path)
    with socket.create_connection(("127.0.0.1", head.port)) as connection:
        connection.sendall(QUESTION)
        true = connection.makefile("rb").read()
    answers = {
        "nothing": b"",
        "changed": true[:-3] + bytes([true[-3] ^ 1]) + true[-2:],
        "short": true[:90],
        "repeated": true,  # of another member's question
        "no JSON": true[:96] + b"{" + b"\n",
    }
    with socket.create_server(("127.0.0.1", 0)) as impostor:

        def answer() -> None:
            connection, _ = impostor.accept()
            with connection:
                connection.recv(100)
                connection.sendall(answers[damage])

        thread = Thread(target=answer)
        thread.start()
        assert fetch(impostor.getsockname()[1]) is None
        thread.join()


def test_a_member_learns_that_the_head_has_ended_and_why(head: HeadExchange, tmp_path: Path) -> None:
    publish(tmp_path)
    end(tmp_path)
    heard = ask_head("127.0.0.1", head.port, KEY, 0)
    assert heard.rendezvous is None and heard.ended is not None
    assert (heard.ended.failure, heard.ended.code) == (FAILED, 3)


def test_a_head_that_has_ended_well_is_still_found(head: HeadExchange, tmp_path: Path) -> None:
    publish(tmp_path)
    end(tmp_path, None)
    assert fetch(head.port) == PUBLISHED


@pytest.mark.parametrize("members", [1, 2])
def test_the_head_waits_until_all_members_have_heard_of_its_end(tmp_path: Path, members: int) -> None:
    os.makedirs(RunPaths(str(tmp_path / "run")).attempt_dir)
    exchange = HeadExchange(RunPaths(str(tmp_path / "run")), "127.0.0.1", 0, KEY, 3)
    now = [0.0]

    def sleep(seconds: float) -> None:
        now[0] += seconds
        if now[0] == 3.0:
            end(tmp_path)
        if now[0] >= 4.0:
            assert ask_head("127.0.0.1", exchange.port, KEY, 0, 1 + int(now[0]) % members).ended is not None

    try:
        assert ask_head("127.0.0.1", exchange.port, KEY, 0) == (None, None)  # nothing was told, so nobody has heard
        exchange.wait_until_told(20, lambda: False, lambda: now[0], sleep)
        assert now[0] == 20.0 if members == 1 else 5.0 <= now[0] < 6.0
        if members == 1:
            exchange.wait_until_told(20, lambda: now[0] >= 22.0, lambda: now[0], sleep)
            assert now[0] == 22.0
    finally:
        exchange.close()


def test_a_port_that_somebody_has_taken_is_no_obstacle(tmp_path: Path) -> None:
    os.makedirs(RunPaths(str(tmp_path / "run")).attempt_dir)
    publish(tmp_path)
    with socket.create_server(("127.0.0.1", 0)) as taken:
        thread = Thread(target=lambda: taken.accept()[0].close())  # who has it is empty that is believed
        thread.start()
        port = taken.getsockname()[1]
        exchange = HeadExchange(RunPaths(str(tmp_path / "run")), "127.0.0.1", port, KEY)
        try:
            assert exchange.port > port
            assert fetch(port) == PUBLISHED
        finally:
            exchange.close()
        thread.join()
