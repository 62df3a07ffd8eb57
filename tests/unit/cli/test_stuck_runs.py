"""A run that stands still, as status, why and events show it; and one that went on, or was not looked at."""

from __future__ import annotations

import json
import os
import time
from pathlib import Path
from typing import Any

import pytest

from worldsize.cli.main import main
from worldsize.common.atomic_files import write_json, write_text
from worldsize.plan.plan import Plan, node_major_layout
from worldsize.plan.run_paths import RunPaths
from worldsize.state.hang import stuck_text
from worldsize.store.runs import create_run

SENTENCE = "rank 3 (node 1) has not entered all_reduce #288; 3 others wait there; it is in load, train.py:41"
GROUPS = ["rank 3: reads or writes in read at train.py:41 in load", "ranks 0-2: wait in all_reduce at train.py:30"]


@pytest.fixture
def run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> RunPaths:
    """A run whose ranks have started, on a machine that cannot be asked."""
    home = str(tmp_path / "home")
    monkeypatch.setenv("WORLDSIZE_HOME", home)
    monkeypatch.chdir(tmp_path)
    paths = create_run(home)
    plan = Plan(paths.run_id, "train", "local", 1.0, 0, node_major_layout(2, 2), ("true",), {})
    write_text(paths.plan, plan.to_json())
    write_json(paths.record, {})
    write_json(paths.handle, {"type": "local", "host": "elsewhere", "pid": 1, "start_time": 1, "run_id": paths.run_id})
    tell(paths, "ranks_started", pids={})
    return paths


def tell(paths: RunPaths, kind: str, **fields: Any) -> None:
    with open(paths.events(0), "a") as file:
        file.write(json.dumps({"time": time.time(), "event": kind, **fields}) + "\n")


def hang(paths: RunPaths, **fields: Any) -> float:
    """Write hang.json and what the head says of it; return since when it stands still."""
    since = time.time() - 735.0
    os.makedirs(paths.code, exist_ok=True)
    Path(paths.code, "train.py").touch()
    written = {
        "alive": False, "reason": "", "standing": "established", "kind": "H1", "ranks": [3], "nodes": [1],
        "call": "all_reduce", "sequence": 288, "waiting": [0, 1, 2], "since": since,
        "place": [paths.code + "/train.py", 41, "load"], "witnesses": ["stacks", "recorder"],
        "missing": {"ras": "no answer"}, "sentence": SENTENCE, "groups": GROUPS, "samples": [1, 2],
        "silent_since": since, "judged_at": time.time(), **fields,
    }  # fmt: skip
    write_json(paths.judged, written)
    sentence = written["sentence"]
    tell(paths, "stuck", sentence=sentence, standing="established", seconds=312)
    tell(paths, "notice", id="hang", text=stuck_text(312.0, str(sentence)))
    return since


def output(capsys: pytest.CaptureFixture[str], run: RunPaths, verb: str, *words: str) -> str:
    assert main([verb, run.run_id, *words]) == 0
    return capsys.readouterr().out


def test_status_says_since_when_and_why(run: RunPaths, capsys: pytest.CaptureFixture[str]) -> None:
    since = hang(run)
    text = output(capsys, run, "status")
    clock = time.strftime("%H:%M:%S", time.localtime(since))
    assert text.startswith("%s  RUNNING\n" % run.run_id)
    assert "\nstuck since %s (12 min): %s\ndetails: worldsize why %s\n" % (clock, SENTENCE, run.run_id) in text
    assert text.count(SENTENCE) == 1
    data = json.loads(output(capsys, run, "status", "-o", "json"))
    assert data["hang"] == {"since": since, "sentence": SENTENCE, "standing": "established", "ranks": [3]}
    assert data["failure"] is None


def test_why_tells_it_while_the_run_runs(run: RunPaths, capsys: pytest.CaptureFixture[str]) -> None:
    hang(run)
    lines = output(capsys, run, "why").splitlines()
    assert lines[0] == "run %s RUNNING" % run.run_id and lines[2] == "cause (established, hang): " + SENTENCE
    assert lines[3].startswith("  rank 3 on node 1, at ")
    assert lines[4] == "  named by the stacks and the Flight Recorder"
    assert lines[5] == "  no rank is named by NCCL RAS: no answer" and [line.strip() for line in lines[6:8]] == GROUPS
    assert lines[9] == "chain:" and lines[10].startswith("  root ") and lines[10].endswith("(train.py:41)")
    assert "worldsize stacks RUN" in lines[-3] and "worldsize cancel RUN" in lines[-3]
    assert lines[-2] == "documentation: causes/ends/hang.md"
    data = json.loads(output(capsys, run, "why", "-o", "json"))
    assert (data["state"], data["cause"]["id"], data["cause"]["ranks"]) == ("RUNNING", "hang", [3])


def test_a_run_that_went_on_is_not_stuck(run: RunPaths, capsys: pytest.CaptureFixture[str]) -> None:
    hang(run)
    tell(run, "resumed")
    tell(run, "notice", id="hang", text="the run continues: there are signs of life again")
    text = output(capsys, run, "status")
    assert "stuck since" not in text and SENTENCE not in text and "notice" not in text
    assert json.loads(output(capsys, run, "status", "-o", "json"))["hang"] is None
    told = output(capsys, run, "events")
    assert told.count(SENTENCE) == 1 and told.count("the run continues") == 1
    assert output(capsys, run, "why") == "run %s RUNNING: it has not ended\n" % run.run_id


def test_nor_is_one_that_nobody_has_judged(run: RunPaths, capsys: pytest.CaptureFixture[str]) -> None:
    assert json.loads(output(capsys, run, "status", "-o", "json"))["hang"] is None
    Path(run.judged).write_text('{"alive": false')
    assert "stuck since" not in output(capsys, run, "status")
    assert output(capsys, run, "why") == "run %s RUNNING: it has not ended\n" % run.run_id


def test_a_run_without_a_hang_costs_one_open_that_fails(
    run: RunPaths, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    opened = []

    def open_and_note(path: str, *rest: Any, **more: Any) -> int:
        opened.append(path)
        return os_open(path, *rest, **more)

    os_open = os.open
    monkeypatch.setattr(os, "open", open_and_note)
    output(capsys, run, "status")
    assert opened.count(run.judged) == 1
    assert sum(os.path.basename(str(path)).startswith("node-0000") for path in opened) == opened.count(run.events(0))


def test_secrets_are_masked_wherever_it_is_told(run: RunPaths, capsys: pytest.CaptureFixture[str]) -> None:
    secret = "ghp_" + "a1B2" * 9
    hang(run, sentence="rank 3 waits for https://x/?token=%s" % secret, groups=["rank 3: token=%s" % secret])
    for words in (["status"], ["status", "-o", "json"], ["why"], ["why", "-o", "json"], ["events"]):
        text = output(capsys, run, *words)
        assert "rank 3 waits for" in text and secret not in text


def test_what_it_says_drives_no_terminal(run: RunPaths, capsys: pytest.CaptureFixture[str]) -> None:
    hang(run, sentence="rank 3\x1b[2J\nSUCCEEDED", groups=["\x1b]0;x\x07"])
    for verb in ("status", "why", "events"):
        text = output(capsys, run, verb)
        assert "\x1b" not in text and "\x07" not in text and "\nSUCCEEDED" not in text


def test_events_tell_that_it_stands_still_and_that_it_goes_on(
    run: RunPaths, capsys: pytest.CaptureFixture[str]
) -> None:
    hang(run)
    tell(run, "resumed")
    text = output(capsys, run, "events")
    assert "node 0  the run has made no progress for 312 s (established): " + SENTENCE in text
    assert "node 0  the run continues: there are signs of life again" in text
