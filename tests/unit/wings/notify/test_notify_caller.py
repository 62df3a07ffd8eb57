"""The process that calls the command of `notify`, as an agent and the process above it tell it what happens."""

from __future__ import annotations

import json
import os
import selectors
from collections.abc import Iterator
from pathlib import Path

import pytest

from worldsize.agent.outcome.node_record import NodeRecorder
from worldsize.agent.outcome.notifications import Notifications, begin_notifications
from worldsize.common.atomic_files import write_json
from worldsize.plan.plan import Plan, node_major_layout
from worldsize.plan.run_paths import RunPaths
from worldsize.state.exit_records import read_events
from worldsize.state.records import ExitRecord, Failure, Reason
from worldsize.wings.notify.agent import caller

pytestmark = pytest.mark.heavy

ENVIRON = {"PATH": os.environ["PATH"]}
COMMAND = "cat >> ../told"
FAILURE = Failure(Reason.EXIT_CODE, "rank 1 (hunter2hunter2) exited with code 3", 0, 1, 3, 10.0)


class Attempt:
    """An attempt in a directory of its own, whose head tells."""

    def __init__(self, root: Path, nodes: int = 1, command: str = COMMAND, restartable: bool = False) -> None:
        self.paths = RunPaths(str(root))
        for directory in self.paths.directories():
            os.makedirs(directory)
        layout = node_major_layout(nodes, 2)
        variables = {"TOKEN": "hunter2hunter2"}
        self.plan = Plan(
            self.paths.run_id, "t", "lab", 1.0, 0, layout, ("x",), variables, secrets=("TOKEN",), notify=command
        )
        self.recorder = NodeRecorder(self.paths, 0, 2)
        self.notifications = begin_notifications(self.plan, self.paths, ENVIRON, restartable)
        self.notifications.attach(self.recorder, selectors.DefaultSelector())

    def end(self, node: int, stop: str | None = None, failure: Failure | None = None, code: int = 0) -> None:
        record = ExitRecord(node, "h", 0, 1.0, 2.0, (), stop, failure, code)
        write_json(self.paths.exit_record(node), record.to_json())

    def told(self) -> list[dict[str, object]]:
        for pid in self.notifications.pids:
            os.waitpid(pid, 0)
        with open(os.path.join(self.paths.root, "told")) as file:
            return [json.loads(line) for line in file]

    def notices(self) -> list[str]:
        return [event["text"] for event in read_events(self.paths, 0) if event["event"] == "notice"]


def events(told: list[dict[str, object]]) -> list[tuple[object, object]]:
    return [(message["event"], message["state"]) for message in told]


@pytest.fixture
def patient(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """On a machine that does much else, too."""
    monkeypatch.setattr(caller, "PATIENCE", 60.0)
    yield


def test_what_the_head_records_is_told_in_its_order_and_the_end_once(tmp_path: Path, patient: None) -> None:
    attempt = Attempt(tmp_path / "20260101-000000-000abc")
    write_json(attempt.paths.handle, {"type": "slurm", "job": "417"})
    for kind in ("agent_started", "ranks_started", "rank_exited", "stuck", "clock", "resumed"):
        attempt.recorder.write_event(kind)
    attempt.end(0)
    attempt.notifications.tell_end()
    attempt.notifications.tell_end()
    told = attempt.told()
    assert events(told) == [
        ("start", "RUNNING"),
        ("stuck", "RUNNING"),
        ("resumed", "RUNNING"),
        ("end", "SUCCEEDED"),
    ]
    assert {message["job"] for message in told} == {"417"} and attempt.notices() == []
    assert {message["directory"] for message in told} == {attempt.paths.root}


def test_of_a_run_that_never_started_its_end_is_told(tmp_path: Path, patient: None) -> None:
    attempt = Attempt(tmp_path / "run")
    attempt.recorder.write_event("stopping", why="failure")
    attempt.recorder.write_event("ranks_started", pids={})
    attempt.end(0, "failure", FAILURE, 3)
    attempt.notifications.tell_end()
    told = attempt.told()
    assert events(told) == [("failure", "FAILED"), ("end", "FAILED")]
    assert told[0]["why"] == "rank 1 (***) exited with code 3"


def test_a_success_is_every_nodes(tmp_path: Path, patient: None, monkeypatch: pytest.MonkeyPatch) -> None:
    attempt = Attempt(tmp_path / "run", nodes=2)
    attempt.end(0)
    attempt.end(1, "failure", FAILURE._replace(node_rank=1), 1)
    attempt.notifications.tell_end()
    assert events(attempt.told()) == [("failure", "FAILED"), ("end", "FAILED")]

    silent = Attempt(tmp_path / "silent", nodes=2)
    silent.end(0)
    monkeypatch.setattr(caller, "PATIENCE", 0.2)
    silent.notifications.tell_end()
    (message,) = silent.told()
    assert message["event"] == "end" and message["state"] not in ("SUCCEEDED", "FAILED", "CANCELLED", "LOST")


def test_a_record_is_read_once_however_long_others_are_waited_for(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    attempt = Attempt(tmp_path / "run", nodes=4)
    for node in (0, 1, 2):
        attempt.end(node)
    asked: list[int] = []
    read = caller.read_exit
    monkeypatch.setattr(caller, "PATIENCE", 0.2)
    monkeypatch.setattr(caller, "read_exit", lambda paths, node: asked.append(node) or read(paths, node))
    attempt.notifications.tell_end()
    assert len(attempt.told()) == 1 and asked.count(3) > 1 and (asked.count(1), asked.count(2)) == (1, 1)


@pytest.mark.parametrize("asked", [True, False])
def test_who_has_asked_for_the_end(tmp_path: Path, patient: None, asked: bool) -> None:
    attempt = Attempt(tmp_path / "run", restartable=True)
    if asked:
        write_json(attempt.paths.cancel, {})
    attempt.end(0, "cancel", None, 143)
    attempt.notifications.tell_end()
    (message,) = attempt.told()
    assert (message["event"], message["state"]) == ("end", "CANCELLED")
    assert (message["reason"], message["may_restart"]) == (("CANCELLED_BY_USER", False) if asked else (None, True))


def test_a_command_that_fails_is_one_notice_and_what_it_prints_is_in_the_attempt(tmp_path: Path, patient: None) -> None:
    attempt = Attempt(tmp_path / "run", command="nosuch; exit 127")
    attempt.recorder.write_event("ranks_started")
    attempt.end(0)
    attempt.notifications.tell_end()
    (notice,) = attempt.notices()
    assert notice.startswith("notify: the command failed at start (exit code 127: bash: line 1: nosuch:")
    assert notice.endswith("correct `notify` in the job or in worldsize.toml; its output is in attempt-0/notify.log")
    with open(attempt.paths.notify_log) as file:
        assert [line.split(":")[0] for line in file] == ["# start", "bash", "# end", "bash"]


def test_one_that_hangs_is_not_waited_for_long(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(caller, "PATIENCE", 0.2)
    monkeypatch.setattr(caller, "LIMIT", 1.0)
    attempt = Attempt(tmp_path / "run", command="cat >> ../told; until [ -e ../go ]; do sleep 0.1; done")
    attempt.end(0)
    attempt.notifications.tell_end()
    assert os.waitpid(attempt.notifications.pids[0], os.WNOHANG) == (0, 0), "it is still at work"
    open(os.path.join(attempt.paths.root, "go"), "w").close()
    assert events(attempt.told()) == [("end", "SUCCEEDED")]


def test_it_keeps_nothing_of_the_process_that_it_comes_from(tmp_path: Path, patient: None) -> None:
    reading, writing = os.pipe()
    attempt = Attempt(tmp_path / "run", command="pwd >> ../told; ls -l /proc/self/fd >> ../files")
    os.close(writing)
    assert os.read(reading, 1) == b"", "nobody else has it open"
    os.close(reading)
    attempt.end(0)
    attempt.notifications.tell_end()
    assert (tmp_path / "run" / "told").read_text() == attempt.paths.code + "\n"
    assert "socket" not in (tmp_path / "run" / "files").read_text()


def test_once_nobody_is_left_to_tell_it_ends(tmp_path: Path) -> None:
    attempt = Attempt(tmp_path / "run")
    attempt.notifications._caller._link.close()
    assert os.waitpid(attempt.notifications.pids[0], 0)[1] == 0


def test_once_it_is_gone_the_run_goes_on(tmp_path: Path) -> None:
    attempt = Attempt(tmp_path / "run")
    os.kill(attempt.notifications.pids[0], 9)
    os.waitpid(attempt.notifications.pids[0], 0)
    attempt.recorder.write_event("ranks_started")
    attempt.end(0)
    attempt.notifications.tell_end()
    assert read_events(attempt.paths, 0)[-1]["event"] == "ranks_started"


def test_without_a_command_there_is_no_process(tmp_path: Path) -> None:
    attempt = Attempt(tmp_path / "run", command="")
    assert attempt.notifications.pids == () and attempt.recorder.listener is None
    Notifications().tell_end()
