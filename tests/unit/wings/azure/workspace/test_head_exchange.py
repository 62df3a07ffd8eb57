"""The head says where it is over TCP: to who has the run's key, whoever else connects or answers."""

from __future__ import annotations

import json
import os
import socket
from collections.abc import Iterator
from pathlib import Path
from threading import Thread

import pytest

from worldsize.agent.control.rendezvous import Rendezvous
from worldsize.common.atomic_files import write_json
from worldsize.plan.run_paths import RunPaths
from worldsize.wings.azure.agent.head_exchange import HeadExchange, fetch_rendezvous

KEY, OTHER = b"k" * 32, b"o" * 32
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


def fetch(port: int, key: bytes = KEY) -> Rendezvous | None:
    return fetch_rendezvous("127.0.0.1", port, key, 0)


def test_a_member_learns_what_the_head_has_published(head: HeadExchange, tmp_path: Path) -> None:
    publish(tmp_path)
    assert fetch(head.port) == PUBLISHED


def test_a_member_that_is_early_asks_again(head: HeadExchange, tmp_path: Path) -> None:
    pauses: list[float] = []

    def sleep(seconds: float) -> None:
        pauses.append(seconds)
        if len(pauses) == 3:
            publish(tmp_path)

    assert fetch_rendezvous("127.0.0.1", head.port, KEY, 60, sleep=sleep) == PUBLISHED
    assert pauses == [0.02, 0.03, pytest.approx(0.045)]


def test_a_member_gives_up_in_time() -> None:
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    clock = iter((0.0, 4.0, 11.0))
    assert fetch_rendezvous("127.0.0.1", port, KEY, 10, lambda: next(clock), lambda _: None) is None


def test_nobody_without_the_key_learns_the_token_or_is_believed(head: HeadExchange, tmp_path: Path) -> None:
    publish(tmp_path)
    assert fetch(head.port, OTHER) is None
    with socket.create_connection(("127.0.0.1", head.port)) as connection:
        connection.sendall(b"0" * 32 + b"\n")
        heard = connection.makefile("rb").read()
    assert PUBLISHED.token.encode() not in heard and b"29501" in heard


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
        connection.sendall(b"1" * 32 + b"\n")
        true = connection.makefile("rb").read()
    answers = {
        "nothing": b"",
        "changed": true.replace(b"29501", b"29502"),
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


def test_the_published_text_is_json(head: HeadExchange, tmp_path: Path) -> None:
    """A release before or after this one adds keys, or leaves them out."""
    publish(tmp_path)
    with socket.create_connection(("127.0.0.1", head.port)) as connection:
        connection.sendall(b"2" * 32 + b"\n")
        said = json.loads(connection.makefile("rb").read()[96:])
    assert said["address"] == "10.0.0.4" and said["launcher"] == "mpirun"
