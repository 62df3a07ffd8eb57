"""Whom a run tells what happens, where it is to tell anybody, and what becomes of a run whose teller fails."""

from __future__ import annotations

import os
import selectors
from collections.abc import Mapping
from typing import Any

import pytest

from worldsize import registry
from worldsize.agent.outcome.node_record import NodeRecorder
from worldsize.agent.outcome.notifications import Notifications, begin_notifications
from worldsize.plan.plan import Plan, node_major_layout
from worldsize.plan.run_paths import RunPaths
from worldsize.state.exit_records import read_events

PLAN = Plan("r", "t", "local", 1.0, 0, node_major_layout(1, 1), ("x",), {})


class Teller:
    """A caller whose answers are given."""

    pid = 4711

    def __init__(self, answers: list[list[str] | Exception | None]) -> None:
        self.answers = answers
        self.heard: list[tuple[str, Mapping[str, Any]]] = []
        self._reading, self._writing = os.pipe()
        os.write(self._writing, b"!")

    def fileno(self) -> int:
        return self._reading

    def hear(self, kind: str, fields: Mapping[str, Any]) -> None:
        self.heard.append((kind, fields))
        if kind == "stuck":
            raise OSError("no room")

    def take_answers(self) -> list[str] | None:
        answer = self.answers.pop(0)
        if isinstance(answer, Exception):
            raise answer
        return answer

    tell_end = take_answers


@pytest.fixture
def recorder(tmp_path) -> NodeRecorder:
    os.makedirs(RunPaths(str(tmp_path)).events_dir)
    os.makedirs(RunPaths(str(tmp_path)).exit_dir)
    return NodeRecorder(RunPaths(str(tmp_path)), 0, 1)


def notices(tmp_path) -> list[tuple[str, str]]:
    events = read_events(RunPaths(str(tmp_path)), 0)
    return [(event["id"], event["text"]) for event in events if event["event"] == "notice"]


def test_a_run_without_the_key_looks_for_nothing(tmp_path, monkeypatch, recorder):
    monkeypatch.setattr(registry, "find_module", lambda name: pytest.fail(name))
    found = begin_notifications(PLAN, RunPaths(str(tmp_path)), {}, False)
    with selectors.DefaultSelector() as selector:
        found.attach(recorder, selector)
        assert not selector.get_map()
    found.tell_end()
    assert found.pids == () and recorder.listener is None


def test_without_the_wing_nobody_is_told(tmp_path, monkeypatch):
    monkeypatch.setattr(registry, "find_module", lambda name: None)
    assert begin_notifications(PLAN._replace(notify="true"), RunPaths(str(tmp_path)), {}, False).pids == ()


def test_what_cannot_be_had_is_no_trouble_of_the_run(tmp_path, monkeypatch, capfd):
    class Broken:
        def Caller(self, *_: object) -> None:
            raise OSError("no more processes")

    monkeypatch.setattr(registry, "find_module", lambda name: Broken())
    found = begin_notifications(PLAN._replace(notify="true"), RunPaths(str(tmp_path)), {}, False)
    found.tell_end()
    assert found.pids == () and "no notifications are sent for this run: no more processes" in capfd.readouterr().err


def test_the_teller_hears_what_is_recorded_and_its_answers_are_notices(tmp_path, recorder, capfd):
    teller = Teller([["it failed"], OSError("broken"), ["at the end"]])
    notifications = Notifications(teller)
    with selectors.DefaultSelector() as selector:
        notifications.attach(recorder, selector)
        recorder.write_event("ranks_started", pids={})
        recorder.write_event("stuck", sentence="rank 1")
        recorder.write_event("notice", id="node", text="not told")
        ((key, _),) = selector.select()
        key.data()
        assert selector.get_map(), "it may say more"
        key.data()
        assert not selector.get_map(), "it is gone, and does not wake the agent for ever"
    notifications.tell_end()
    assert teller.heard == [("ranks_started", {"pids": {}}), ("stuck", {"sentence": "rank 1"})]
    assert [each for each in notices(tmp_path) if each[0] == "notify"] == [
        ("notify", "it failed"),
        ("notify", "at the end"),
    ]
    assert "notify: no room" in capfd.readouterr().err


def test_above_the_agent_its_answers_are_in_the_log(capfd):
    Notifications(Teller([["it failed"]])).tell_end()
    assert capfd.readouterr().err == "it failed\n"
