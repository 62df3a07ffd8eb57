"""Notices of nodes, on the terminal of who follows the run and in its status."""

from __future__ import annotations

import json
import os
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from worldsize.cli.runs.notices import LogWithNotices, notice_lines, read_notices
from worldsize.plan.run_paths import RunPaths


class Events:
    """Events files of a run."""

    def __init__(self, root: Path) -> None:
        self.paths = RunPaths(str(root))
        os.makedirs(self.paths.events_dir)

    def write(self, kind: str, node_rank: int = 0, **fields: Any) -> None:
        with open(self.paths.events(node_rank), "a") as file:
            file.write(json.dumps({"time": 1.0, "event": kind, **fields}) + "\n")


@pytest.fixture
def events(tmp_path: Path) -> Events:
    return Events(tmp_path / "run")


def log_of(events: Events) -> LogWithNotices:
    log: Any = SimpleNamespace(poll=lambda: False, finish=lambda: None)
    return LogWithNotices(events.paths, log)


def test_each_is_shown_once_as_it_comes(events: Events, capsys: pytest.CaptureFixture[str]) -> None:
    log = log_of(events)
    assert log.poll() is False
    events.write("agent_started", pid=1)
    assert log.poll() is False
    events.write("notice", text="node3: network.port: refused")
    assert log.poll() is True and log.poll() is False
    events.write("notice", text="token=hunter2hunter2")
    log.finish()
    log.finish()
    assert capsys.readouterr().err == "notice: node3: network.port: refused\nnotice: token=***\n"


def test_those_of_services_come_while_ranks_run(events: Events, capsys: pytest.CaptureFixture[str]) -> None:
    log = log_of(events)
    events.write("notice", text="first")
    events.write("ranks_started")
    assert log.poll() is True
    events.write("notice", text="it listens")
    log.finish()
    assert capsys.readouterr().err == "notice: first\nnotice: it listens\n"


def test_of_several_nodes_each_text_once(events: Events) -> None:
    for node_rank in range(3):
        events.write("notice", node_rank, text="the same")
        events.write("notice", node_rank, text="of %d" % node_rank)
    events.write("notice", 1)
    assert read_notices(events.paths, range(4)) == ["the same", "of 0", "of 1", "", "of 2"]


def test_many_are_not_all_shown() -> None:
    lines = notice_lines(["%d" % number for number in range(30)])
    assert len(lines) == 11 and lines[0] == "notice: 0" and lines[-1] == "notice: and 20 more"
    assert notice_lines([]) == []
