"""The check of a node as its agent has it: whatever the node program does, the run goes on, and nothing of it is left.

The node programs are real processes, each of which does one thing.
"""

from __future__ import annotations

import json
import os
import select
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from worldsize.agent.control.solo_peers import Peers
from worldsize.agent.posix import processes
from worldsize.plan.rank_variables import Host
from worldsize.wings.checks.agent import node_program, preparation
from worldsize.wings.checks.agent.node_program import NodeTask
from worldsize.wings.checks.agent.preparation import Preparation

Program = Callable[[socket.socket], None]


def test_a_program_leaves_whose_agent_has_gone_without_reading_what_it_said(tmp_path: Path) -> None:
    """Found: a traceback in the agent's log."""
    task = NodeTask(1, ("n0", "n1"), "", str(tmp_path), 1, {"PATH": os.defpath}, {}, "cheap", ("files.space",))
    log = tmp_path / "log"
    pid = os.fork()
    if pid == 0:
        os.dup2(os.open(log, os.O_WRONLY | os.O_CREAT), 2)
        agent, own = socket.socketpair()
        own.sendall(b"unread")
        agent.close()
        node_program._NodeProgram(task, own)._listen()
        os._exit(9)
    assert os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) == 0
    assert log.read_text() == ""


class RecordingPeers(Peers):
    """`told`: what other nodes are told."""

    def __init__(self) -> None:
        super().__init__(Host("n0", 1))
        self.told: list[tuple[int, str, str]] = []

    def tell(self, node_rank: int, topic: str, text: str) -> None:
        self.told.append((node_rank, topic, text))


class Recorder:
    """`notices`: what a person is told."""

    def __init__(self) -> None:
        self.notices: list[str] = []

    def write_event(self, kind: str, text: str, id: str) -> None:
        assert kind == "notice"
        self.notices.append(text)


class Check:
    """A preparation whose node program is `program`."""

    def __init__(
        self,
        monkeypatch: pytest.MonkeyPatch,
        program: Program | None,
        node_rank: int = 0,
        nodes: int = 3,
        root: str = "/run",
    ) -> None:
        """Without a program, the real one, which looks at the space of `root`."""
        hosts = tuple(Host("n%d" % rank, 1) for rank in range(nodes))
        self.launch = launch = SimpleNamespace(
            node=SimpleNamespace(node_rank=node_rank), world=SimpleNamespace(hosts=hosts), plan="plan", environ={}
        )
        task = NodeTask(node_rank, tuple(host.name for host in hosts), "", root, 1, {}, {}, "cheap", ("files.space",))
        if program is not None:
            made = lambda task, agent: SimpleNamespace(run=lambda: program(agent))  # noqa: E731
            monkeypatch.setattr(node_program, "_NodeProgram", made)
        monkeypatch.setattr(preparation, "_task", lambda launch, address: task)
        self.peers = RecordingPeers()
        self.recorder = Recorder()
        self.before = set(processes.children())
        self.it = Preparation(launch, self.peers)  # type: ignore[arg-type]

    def go_on(self, seconds: float = 20.0) -> None:
        """Until the node is ready."""
        end = time.monotonic() + seconds
        while not self.it.ready:
            assert select.select([self.it], [], [], max(0.0, end - time.monotonic()))[0], "it is not ready"
            self.it.acknowledge()

    def finish(self) -> None:
        """As the agent does; afterwards no process is left."""
        assert self.it.finish(self.recorder) is self.launch  # type: ignore[arg-type]
        left = self.it.stop()
        until(lambda: all(has_ended(pid) for pid in left))
        until(lambda: set(processes.children()) <= self.before)

    def told(self) -> list[dict[str, Any]]:
        return [json.loads(text) for _, _, text in self.peers.told]

    def ends_of_others(self) -> list[int]:
        return [rank for rank, _, text in self.peers.told if text == "end"]


def has_ended(pid: int) -> bool:
    try:
        return os.waitpid(pid, os.WNOHANG)[0] == pid
    except ChildProcessError:
        return True


def until(holds: Callable[[], bool]) -> None:
    end = time.monotonic() + 20
    while not holds():
        assert time.monotonic() < end, "it does not come about"
        time.sleep(0.01)


@pytest.fixture(autouse=True)
def subreaper() -> Iterator[None]:
    """This process adopts orphans, as an agent does."""
    processes.become_subreaper()
    yield
    processes._prctl(processes._PR_SET_CHILD_SUBREAPER, 0)


def say(agent: socket.socket, *messages: object) -> None:
    for message in messages:
        agent.sendall(json.dumps(message).encode() + b"\n")


def wait(agent: socket.socket) -> None:
    while True:
        signal.pause()


def start_in_a_session_of_its_own() -> None:
    script = "import signal, time; signal.signal(signal.SIGTERM, signal.SIG_IGN); time.sleep(600)"
    subprocess.Popen([sys.executable, "-S", "-c", script], start_new_session=True)


def test_what_the_programs_say_is_passed_on_and_the_head_ends_the_check_of_all(monkeypatch):
    def program(agent):
        asked = json.loads(agent.makefile().readline())
        say(agent, {"to": 2, "text": "%(text)s of %(from)d" % asked}, {"notices": ["n1: a disk is full"]})
        wait(agent)

    check = Check(monkeypatch, program)
    check.peers.listeners["check"](1, "a word")
    check.go_on()
    assert check.peers.told == [(2, "check", "a word of 1"), (1, "check", "end"), (2, "check", "end")]
    check.finish()
    assert check.recorder.notices == ["n1: a disk is full"]


def test_a_node_that_comes_when_all_is_over_is_told_so(monkeypatch):
    """Found: it waited for its own deadline, and all others with it."""
    check = Check(monkeypatch, lambda agent: say(agent, {"notices": []}))
    check.go_on()
    check.finish()
    del check.peers.told[:]
    check.peers.listeners["check"](2, "here I am")
    assert check.peers.told == [(2, "check", "end")]


def test_a_member_goes_on_when_the_head_says_so_whatever_its_program_does(monkeypatch):
    check = Check(monkeypatch, wait, node_rank=1)
    assert not check.it.ready
    check.peers.listeners["check"](0, "end")
    assert check.it.ready and check.peers.told == []
    check.finish()


@pytest.mark.parametrize("node_rank", [0, 1])
def test_a_program_that_dies(monkeypatch, node_rank):
    check = Check(monkeypatch, lambda agent: os.kill(os.getpid(), signal.SIGKILL), node_rank)
    check.go_on()
    check.finish()
    assert check.ends_of_others() == ([1, 2] if node_rank == 0 else [])
    if node_rank:
        assert check.peers.told == [(0, "check", '{"gone": "the check of this node ended by itself"}')]
    assert check.recorder.notices == ["n%d: the check of this node ended by itself" % node_rank]


@pytest.mark.parametrize(
    "rubbish",
    [
        b"\n", b"nonsense\n", b"[]\n", b"7\n", b"null\n", b"{}\n", b"\x00\xff\xfe\n", b'{"to": "x", "text": ""}\n',
        b'{"to": 1}\n', b'{"notices": 7}\n', b"[" * 50000 + b"\n", b'{"to": 1e999, "text": ""}\n',
    ],
)  # fmt: skip
def test_a_program_that_writes_rubbish(monkeypatch, rubbish):
    """Found: the agent died of it, and the run with it."""

    def program(agent):
        agent.sendall(rubbish)
        wait(agent)

    check = Check(monkeypatch, program)
    check.go_on()
    check.finish()
    assert "sent an invalid message" in check.recorder.notices[0]


@pytest.mark.parametrize("said", [b"x" * (1 << 16), b'{"to": 1, "text": "%s"}\n' % (b"again" * 2000) * 10])
def test_a_program_that_floods(monkeypatch, said):
    """Found: the agent kept all of it in memory, until the deadline."""

    def program(agent):
        while True:
            agent.sendall(said)

    check = Check(monkeypatch, program)
    check.go_on()
    check.finish()
    assert "sent too much" in check.recorder.notices[0]
    assert sum(len(text) for _, _, text in check.peers.told) < 1 << 23


def test_a_message_that_no_connection_between_agents_takes_is_lost(monkeypatch):
    """Found: the node's connection to the head was cut, and the run failed."""
    too_long = {"to": 1, "text": "x" * (1 << 20)}
    check = Check(monkeypatch, lambda agent: say(agent, too_long, {"to": 1, "text": "short"}, {"notices": []}))
    check.go_on()
    assert check.peers.told[:1] == [(1, "check", "short")]
    check.finish()


def test_a_program_that_hangs_is_ended_at_the_deadline(monkeypatch):
    check = Check(monkeypatch, wait)
    deadline = check.it.deadline()
    assert deadline is not None and 30 < deadline - time.monotonic() <= 41
    check.it.tick(deadline - 0.1)
    assert not check.it.ready
    check.it.tick(deadline)
    assert check.it.ready and check.ends_of_others() == [1, 2]
    check.finish()
    assert "took too long" in check.recorder.notices[0]


def test_a_program_that_does_not_read_stops_nobody(monkeypatch):
    check = Check(monkeypatch, wait)
    for _ in range(200):
        check.peers.listeners["check"](1, "x" * (1 << 16))
    check.finish()
    assert check.it._socket.fileno() == -1


@pytest.mark.parametrize("ends", [False, True])
def test_what_it_has_started_is_ended_with_it(monkeypatch, ends):
    """Found: what a program that had ended before left was not."""

    def program(agent):
        start_in_a_session_of_its_own()
        say(agent, {"notices": []})
        if not ends:
            wait(agent)

    check = Check(monkeypatch, program)
    check.go_on()
    if ends:
        until(lambda: any(state(pid) == b"Z" for pid in set(processes.children()) - check.before))
    check.finish()


def test_what_was_there_before_is_not_ended(monkeypatch):
    """As of a setup line that starts a service: it becomes a child of the agent's when its own parent ends."""
    with subprocess.Popen(["sh", "-c", "sleep 60 & echo $!; read line"], stdin=-1, stdout=-1, text=True) as shell:
        assert shell.stdin is not None and shell.stdout is not None
        service = int(shell.stdout.readline())
        check = Check(monkeypatch, wait, node_rank=1)
        shell.stdin.close()
        shell.wait()
        until(lambda: service in processes.children())
        check.before.add(service)
        check.peers.listeners["check"](0, "end")
        check.finish()
        assert state(service) == b"S"
        os.kill(service, signal.SIGKILL)
        os.waitpid(service, 0)


def state(pid: int) -> bytes:
    fields = processes.stat_fields(pid)
    return fields[0] if fields else b""


def test_what_cannot_be_started_is_left_out(monkeypatch):
    """Found: the agent died of it, and the run with it."""

    def refuse(task):
        raise BlockingIOError(11, "Resource temporarily unavailable")

    monkeypatch.setattr(preparation, "start_program", refuse)
    check = Check(monkeypatch, wait)
    assert check.it.ready and check.ends_of_others() == [1, 2]
    check.finish()
    assert "could not be started" in check.recorder.notices[0]


def probes_of(node_rank: int) -> str:
    row = {"node": "n%d" % node_rank, "id": "files.space", "what": "space", "value": "none", "verdict": "bad"}
    return json.dumps({"stage": "probes", "rows": [row], "facts": {}, "address": ""})


def test_the_real_program_goes_on_whatever_other_nodes_say(monkeypatch, tmp_path):
    """There is no directory for its record either, as when the run was removed."""
    check = Check(monkeypatch, None, nodes=4, root=str(tmp_path))
    for text in ("", "nonsense", "[1]", "7", "null", "[" * 5000, '{"order": 1}', '{"end": true}', '{"rows": 3}'):
        check.peers.listeners["check"](1, text)
    check.peers.listeners["check"](1, probes_of(1))
    check.peers.listeners["check"](2, '{"stage": "probes", "rows": 7}')
    check.peers.listeners["check"](3, '{"gone": ["it", "died"]}')
    check.go_on()
    check.finish()
    assert check.ends_of_others() == [1, 2, 3]
    assert check.recorder.notices == ["n1: space: none [files.space]"]


def test_the_real_program_of_a_member_reports_and_waits_for_the_head(monkeypatch, tmp_path):
    check = Check(monkeypatch, None, node_rank=1, root=str(tmp_path))
    for text in ("nonsense", '{"stage": "no such stage", "order": {}}', '{"order": {}}'):
        check.peers.listeners["check"](0, text)
    until(lambda: select.select([check.it], [], [], 0.05)[0] and not check.it.acknowledge() and len(check.told()) > 2)
    check.peers.listeners["check"](0, "end")
    check.finish()
    probes, answer, other = check.told()
    assert probes["stage"] == "probes" and "files.space" in [row["id"] for row in probes["rows"]]
    assert {answer["stage"], other["stage"]} == {"no such stage", "None"}
    assert "ModuleNotFoundError" in answer["answer"]["error"]
