"""TERM, grace and KILL for one real child, which says when it is ready to be told."""

from __future__ import annotations

import signal
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from worldsize.common.child_termination import terminate_child


@contextmanager
def child(script: str) -> Iterator[subprocess.Popen[bytes]]:
    words = ["sh", "-c", script + "; echo ready; while :; do sleep 0.01; done"]
    process = subprocess.Popen(words, stdout=subprocess.PIPE)
    try:
        assert process.stdout is not None
        assert process.stdout.readline() == b"ready\n"
        yield process
    finally:
        process.kill()
        process.communicate()


def end(process: subprocess.Popen[bytes], grace: float) -> list[int]:
    """The signals that were sent."""
    sent: list[int] = []

    def send(number: int) -> None:
        sent.append(number)
        process.send_signal(number)

    terminate_child(process, send, grace)
    return sent


def test_who_listens_has_all_of_the_grace() -> None:
    with child("trap 'exit 7' TERM") as process:
        assert end(process, 600.0) == [signal.SIGTERM]
        assert process.returncode == 7


def test_who_does_not_is_killed_after_it() -> None:
    with child("trap '' TERM") as process:
        assert end(process, 0.1) == [signal.SIGTERM, signal.SIGKILL]
        assert process.wait() == -signal.SIGKILL


def test_no_grace_is_kill_at_once() -> None:
    with child("trap 'exit 7' TERM") as process:
        assert end(process, 0.0) == [signal.SIGKILL]
        assert process.wait() == -signal.SIGKILL


def test_who_has_ended_is_sent_nothing() -> None:
    with child(":") as process:
        process.kill()
        process.wait()
        assert end(process, 600.0) == []


@pytest.mark.parametrize("grace", [0.0, 0.05])
def test_who_outlives_even_that_is_not_waited_for_any_more(grace: float) -> None:
    sent: list[int] = []
    with child(":") as process:
        terminate_child(process, sent.append, grace)
        assert process.poll() is None and sent[-1] == signal.SIGKILL and sent.count(signal.SIGKILL) == 1
