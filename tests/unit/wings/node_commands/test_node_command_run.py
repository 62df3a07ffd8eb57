"""A command on one node: what it is told to end by, and when. Real processes, and a clock that the tests move."""

from __future__ import annotations

import os
import signal
import sys
from binascii import a2b_base64
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from clocks import Clock
from driver import wait_for

from worldsize.agent.posix import processes
from worldsize.wings.node_commands.agent.node_environment import shell_argv
from worldsize.wings.node_commands.agent.run_command import NodeCommandRun
from worldsize.wings.node_commands.agent.transports import NOW, STOP

GRACE = 5.0
DEAF = "trap '' TERM; echo up; while :; do sleep 0.05; done"
LISTENS = "trap 'echo told; exit 3' TERM; echo up; while :; do sleep 0.05; done"
STOPPED = "echo up; kill -STOP $$; sleep 600"


class Listener:
    """Whoever asked: `wanted` is called at each turn, with what has been told, and says what is wanted."""

    output_limit = sys.maxsize

    def __init__(self, wanted: Callable[[Listener], str]) -> None:
        self.clock = Clock()
        self.has_room = True
        self.closed = False
        self.out = self.err = ""
        self.codes: dict[int, int] = {}
        self._wanted = wanted

    def send(self, line: bytes) -> None:
        _, node, kind, value = line.split()
        if kind == b"end":
            self.codes[int(node)] = int(value)
        elif kind == b"out":
            self.out += a2b_base64(value).decode()
        elif kind == b"err":
            self.err += a2b_base64(value).decode()

    def poll(self) -> str:
        return self._wanted(self)

    def close(self) -> None:
        self.closed = True


@pytest.fixture(autouse=True)
def _handlers() -> Iterator[None]:
    before = {number: signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM)}
    yield
    for number, handler in before.items():
        signal.signal(number, handler)


def executed(script: str, wanted: Callable[[Listener], str], nodes: int = 1) -> Listener:
    """`script` on so many nodes, until it has ended there."""
    listener = Listener(wanted)
    order = {"argv": ["sh", "-c", script], "cwd": "/", "plan": None, "set": {}, "grace": GRACE}
    command = NodeCommandRun(order, list(range(nodes)), listener, listener.clock)  # type: ignore[arg-type]
    command.run()
    assert listener.closed and command.code == max(listener.codes.values())
    return listener


class Turns:
    """Wants `word` from when all nodes are up; then each of the `moments`, seconds later, lasts for three turns.
    `living`: how many nodes had not ended at each."""

    def __init__(self, word: str, moments: tuple[float, ...] = (0.0,), nodes: int = 1) -> None:
        self.living: list[int] = []
        self._word = word
        self._moments = iter([moment for moment in moments for _ in range(3)])
        self._nodes = nodes
        self._at: float | None = None

    def __call__(self, listener: Listener) -> str:
        if listener.out.count("up") < self._nodes:
            return ""
        self._at = self._at or listener.clock.now
        moment = next(self._moments, None)
        if moment is not None:
            listener.clock.now = self._at + moment
            self.living.append(self._nodes - len(listener.codes))
        return self._word


def test_nothing_ends_it_before_somebody_wants_that() -> None:
    assert executed("exit 4", lambda listener: "").codes == {0: 4}


def test_who_listens_to_a_stop_has_time_to_say_so() -> None:
    found = executed(LISTENS, Turns(STOP))
    assert (found.codes, found.out) == ({0: 3}, "up\ntold\n")


@pytest.mark.heavy
def test_who_does_not_is_killed_after_the_grace_and_no_sooner() -> None:
    turns = Turns(STOP, (0.0, 1.0, GRACE - 0.1, GRACE))
    assert executed(DEAF, turns).codes == {0: 137}
    assert turns.living[:9] == [1] * 9


def test_its_last_words_are_heard() -> None:
    script = "trap 'echo told' TERM; echo up; while :; do sleep 0.05; done"

    def wanted(listener: Listener) -> str:
        if "told" in listener.out:
            listener.clock.now += GRACE
        return STOP if "up" in listener.out else ""

    found = executed(script, wanted)
    assert (found.codes, found.out) == ({0: 137}, "up\ntold\n")


def test_at_once_leaves_no_grace() -> None:
    found = executed(LISTENS, Turns(NOW))
    assert (found.codes, found.out) == ({0: 137}, "up\n")


def test_at_once_ends_a_grace() -> None:
    def wanted(listener: Listener) -> str:
        return NOW if "told" in listener.out else STOP if "up" in listener.out else ""

    script = "trap 'echo told' TERM; echo up; while :; do sleep 0.05; done"
    assert executed(script, wanted).codes == {0: 137}


@pytest.mark.heavy
def test_a_stop_that_is_repeated_gives_no_more_time() -> None:
    turns = Turns(STOP, (0.0, 2.0, 4.0, GRACE))
    assert executed(DEAF, turns).codes == {0: 137}


def test_who_ends_us_ends_it_at_once() -> None:
    def wanted(listener: Listener) -> str:
        if "up" in listener.out:
            signal.raise_signal(signal.SIGTERM)
        return ""

    assert executed(LISTENS, wanted).codes == {0: 137}


def test_a_scheduler_that_interrupts_us_wants_a_stop() -> None:
    def wanted(listener: Listener) -> str:
        if "up" in listener.out and "told" not in listener.out:
            signal.raise_signal(signal.SIGINT)
        return ""

    assert executed(LISTENS, wanted).codes == {0: 3}


def test_a_stopped_one_hears_that_it_should_end() -> None:
    assert executed(STOPPED, Turns(STOP)).codes == {0: 143}


def test_all_nodes_of_this_machine_are_told() -> None:
    turns = Turns(STOP, (0.0, GRACE), nodes=3)
    found = executed("if [ $WORLDSIZE_NODE_RANK = 1 ]; then %s; else %s; fi" % (LISTENS, DEAF), turns, nodes=3)
    assert found.codes == {0: 137, 1: 3, 2: 137}


def test_what_holds_its_output_open_is_ended_a_moment_after_it() -> None:
    def wanted(listener: Listener) -> str:
        listener.clock.now += 0.1
        return ""

    found = executed("sleep 600 & echo $!; exit 4", wanted)
    assert found.codes == {0: 4}
    wait_for(lambda: processes.start_time(int(found.out)) is None)


@pytest.mark.heavy
@pytest.mark.parametrize(("limit", "notices"), [(24, 0), (12, 1), (8, 1), (0, 1)])
def test_output_beyond_the_limit_is_dropped_which_is_told_once(
    limit: int, notices: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(Listener, "output_limit", limit)
    found = executed("for i in 1 2 3; do echo 1234567; sleep 0.05; done; exit 4", lambda listener: "")
    assert (found.out, found.codes) == (("1234567\n" * 3)[:limit], {0: 4})
    assert found.err.count("MiB on this node: the rest is not shown\n") == notices


def test_nothing_is_read_of_it_as_long_as_nobody_takes_what_was() -> None:
    turns = 0

    def wanted(listener: Listener) -> str:
        nonlocal turns
        turns += 1
        if turns < 4:
            assert listener.out == ""
        listener.has_room = turns >= 4
        return ""

    listener = Listener(wanted)
    listener.has_room = False
    order = {"argv": ["sh", "-c", "echo up"], "cwd": "/", "plan": None, "set": {}, "grace": GRACE}
    NodeCommandRun(order, [0], listener, listener.clock).run()  # type: ignore[arg-type]
    assert (listener.out, listener.codes) == ("up\n", {0: 0})


def test_what_cannot_be_executed_is_told() -> None:
    listener = Listener(lambda listener: "")
    order = {"argv": ["no-such-command"], "cwd": "/", "plan": None, "set": {}, "grace": GRACE}
    NodeCommandRun(order, [0], listener, listener.clock).run()  # type: ignore[arg-type]
    assert (listener.err, listener.codes) == ("worldsize: no-such-command: command not found\n", {0: 127})


def test_words_of_a_python_are_given_to_the_one_that_executes_this() -> None:
    listener = Listener(lambda listener: "")
    words = ["-I", "-c", "import sys; print(sys.executable, *sys.argv[1:])", "a b"]
    order = {"argv": words, "python": True, "cwd": "/", "plan": None, "set": {"PATH": "/nowhere"}, "grace": GRACE}
    NodeCommandRun(order, [0], listener, listener.clock).run()  # type: ignore[arg-type]
    assert (listener.out, listener.codes) == ("%s a b\n" % sys.executable, {0: 0})


def test_a_command_is_found_and_refused_as_a_shell_does(tmp_path: Path) -> None:
    """By the first of its PATH that may be executed; a directory of that name, or a file on PATH, is no command."""
    plain, found = tmp_path / "plain", tmp_path / "found"
    for directory, mode in ((plain, 0o644), (found, 0o755)):
        directory.mkdir()
        (directory / "tool").write_text("#!/bin/sh\necho here\n")
        (directory / "tool").chmod(mode)
    (plain / "folder").mkdir()
    file = str(plain / "tool")
    refused = "worldsize: %s: Permission denied\n"
    for path, name, expected in (
        (f"{plain}:{found}", "tool", ("", {0: 0})),
        (f"{plain}", "tool", (refused % "tool", {0: 126})),
        (f"{plain}", file, (refused % file, {0: 126})),
        (f"{plain}", "folder", ("worldsize: folder: command not found\n", {0: 127})),
        (f"{file}:{plain}", "no-tool", ("worldsize: no-tool: command not found\n", {0: 127})),
    ):
        listener = Listener(lambda listener: "")
        order = {"argv": [name], "cwd": "/", "plan": None, "set": {"PATH": path}, "grace": GRACE}
        NodeCommandRun(order, [0], listener, listener.clock).run()  # type: ignore[arg-type]
        assert (listener.err, listener.codes) == expected, (path, name)


def test_a_shell_is_bash_where_there_is_one() -> None:
    assert shell_argv({"PATH": "/nowhere"}) == ["sh", "-i"]
    assert shell_argv(dict(os.environ))[0] in ("bash", "sh")
