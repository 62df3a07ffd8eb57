"""Notices of nodes, on the terminal of who follows the run and in its status."""

from __future__ import annotations

import json
import os
import re
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from worldsize.cli.runs.notices import LogWithNotices, notice_lines, notices_data, read_notices
from worldsize.plan.run_paths import RunPaths
from worldsize.state.hang import stuck_text
from worldsize.state.notices import NOTICES, Notice, append_rank_notice, notice_at


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


def test_that_the_run_stands_still_is_told_once(events: Events, capsys: pytest.CaptureFixture[str]) -> None:
    log = log_of(events)
    sentence = "rank 3 (node 1) has not entered all_reduce #288"
    events.write("stuck", sentence=sentence, standing="established", seconds=312)
    events.write("notice", text=stuck_text(312.0, sentence))
    assert log.poll() is True and log.poll() is False
    events.write("resumed")
    events.write("notice", text="the run continues: there are signs of life again")
    log.finish()
    assert capsys.readouterr().err == (
        "notice: no sign of life for 312 s: %s\nnotice: the run continues: there are signs of life again\n" % sentence
    )


def test_of_several_nodes_each_text_once(events: Events) -> None:
    for node_rank in range(3):
        events.write("notice", node_rank, text="the same")
        events.write("notice", node_rank, text="of %d" % node_rank)
    events.write("notice", 1)
    assert [notice.text for notice in read_notices(events.paths, range(4))] == ["the same", "of 0", "of 1", "", "of 2"]


def test_those_of_the_record_the_nodes_and_the_ranks_are_one_list(events: Events) -> None:
    record = [{"id": "script", "text": "train.py:3: x", "file": "train.py", "line": 3}, 7, {"text": 1}, {"text": "old"}]
    with open(events.paths.record, "w") as file:
        json.dump({"notices": record}, file)
    events.write("notice", id="network.port", text="refused")
    append_rank_notice(events.paths, Notice("data-parallel", "a sum", "/x/train.py", 9))
    with open(events.paths.rank_notices, "a") as file:
        file.write('{"id": "cut')
    assert [tuple(each.values()) for each in notices_data(events.paths, [0])] == [
        ("script", "train.py", 3, "train.py:3: x"),
        ("preparation", None, None, "old"),
        ("network.port", None, None, "refused"),
        ("data-parallel", "/x/train.py", 9, "a sum"),
    ]


def test_places_of_findings_are_files_and_lines() -> None:
    assert notice_at("script", "x", "train.py:8") == Notice("script", "x", "train.py", 8)
    assert notice_at("script", "x", "job.yml:7: inputs.lr") == Notice("script", "x", "job.yml", 7)
    for where in (None, "", "command", "--set inputs.lr", "outputs: x", "https://x/y"):
        assert notice_at("script", "x", where) == Notice("script", "x")


def test_the_documentation_has_every_kind_and_the_code_no_other() -> None:
    root = Path(__file__).parents[3]
    page = (root / "docs" / "reference" / "run-directory.md").read_text()
    rows = page.partition("## Notices")[2].partition("\n## ")[0]
    assert dict(re.findall(r"^\| `([a-z-]+)` \| (.*) \|$", rows, re.MULTILINE)) == NOTICES
    used = set()
    for path in (root / "src" / "worldsize").rglob("*.py"):
        text = path.read_text()
        if "CheckResult(" in text or "notice" in text.lower():
            used |= set(re.findall(r'\bid="([a-z-]+)"', text))
            used |= set(re.findall(r'\bNotice\(\s*"([a-z-]+)"', text))
    assert used <= set(NOTICES)


def test_many_are_not_all_shown() -> None:
    lines = notice_lines(["%d" % number for number in range(30)])
    assert len(lines) == 11 and lines[0] == "notice: 0" and lines[-1] == "notice: and 20 more"
    assert notice_lines([]) == []


def test_what_stands_in_the_place_of_the_ranks_notices_keeps_nobody_waiting(events: Events) -> None:
    """A run's directory may be another user's."""
    os.mkfifo(events.paths.rank_notices)
    assert notices_data(events.paths, ()) == []
