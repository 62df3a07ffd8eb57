from __future__ import annotations

import json
import os
import time
from pathlib import Path
from typing import Any

import pytest
from event_file_bytes import losses, write_events

from worldsize.agent.posix.processes import host_name
from worldsize.plan.run_paths import RunPaths
from worldsize.wings.metrics import run_files
from worldsize.wings.metrics.tensorboard import (
    directory_walk,
    read_tensorboard,
    read_tensorboard_inside,
    unreadable_files,
)
from worldsize.wings.metrics.tensorboard.directory_walk import find_event_files
from worldsize.wings.metrics.tensorboard.event_files import event_files
from worldsize.wings.metrics.tensorboard.scalars import EventFile

CREATED = 1764224000


def name(host: str = "node1", pid: int = 4711, seconds: int = CREATED) -> str:
    return "events.out.tfevents.%d.%s.%d.0" % (seconds, host, pid)


class RecordedRun:
    """A run directory as agents leave it."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self.paths = RunPaths(str(root))
        self.plan(["python", "train.py"])
        (root / "code").mkdir(parents=True, exist_ok=True)

    def plan(self, argv: Any, environment: Any = None) -> None:
        self.write("plan.json", json.dumps({"created": CREATED - 5.0, "argv": argv, "environment": environment or {}}))

    def attempt(self, number: int, start: float, pids: dict[str, int], host: str = "node1", node: int = 0) -> None:
        events: list[dict[str, Any]] = [
            {"time": start, "event": "agent_started", "pid": 1, "host": host},
            {"time": start + 1, "event": "ranks_started", "pids": pids},
        ]
        text = "".join(json.dumps(each) + "\n" for each in events)
        self.write("attempt-%d/events/node-%04d.jsonl" % (number, node), text)

    def note(self, path: str, rank: int = 0, attempt: int = 0, node: int = 0) -> None:
        line = json.dumps({"path": path, "rank": rank}) + "\n"
        self.write("attempt-%d/metrics/files-%04d.jsonl" % (attempt, node), line)

    def write(self, relative: str, text: str) -> None:
        path = self.root / relative
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)

    def events(self, relative: str) -> str:
        return write_events(self.root / relative, losses(2))

    def files(self) -> list[EventFile]:
        return event_files(self.paths)


@pytest.fixture
def run(tmp_path: Path) -> RecordedRun:
    return RecordedRun(tmp_path / "run")


def test_files_in_the_run_have_the_rank_of_the_process_that_their_name_says(run: RecordedRun) -> None:
    run.attempt(0, CREATED - 3.0, {"0": 4711, "1": 4712})
    first = run.events("code/runs/today/" + name(pid=4711))
    second = run.events("outputs/tb/" + name(pid=4712, seconds=CREATED + 1))
    other = run.events("user_logs/" + name(pid=1, seconds=CREATED + 2))
    assert run.files() == [
        EventFile(other, "user_logs", None, 0),
        EventFile(second, "outputs/tb", 1, 0),
        EventFile(first, "code/runs/today", 0, 0),
    ]
    assert [(each.name, each.place, each.rank) for each in read_tensorboard(run.paths)] == [
        ("loss", "code/runs/today", 0),
        ("loss", "outputs/tb", 1),
        ("loss", "user_logs", None),
    ]


def test_files_that_came_with_the_code_are_not_the_runs(run: RecordedRun) -> None:
    old, new = "runs/old/" + name(), "runs/old/" + name(pid=5)
    run.events("code/" + old)
    path = run.events("code/" + new)
    run.write("code.json", json.dumps({"version": 1, "files": {old: ["file", 1, "x"]}}))
    assert [file.path for file in run.files()] == [path]


@pytest.mark.parametrize("manifest", ["", "[]", '{"files": 3}', "{"])
def test_a_damaged_manifest_names_nothing(run: RecordedRun, manifest: str) -> None:
    run.events("code/" + name())
    run.write("code.json", manifest)
    assert len(run.files()) == 1


def test_attempts_by_the_process_and_else_by_the_time(run: RecordedRun) -> None:
    run.attempt(0, CREATED - 3.0, {"0": 4711})
    run.attempt(1, CREATED + 100.0, {"0": 4800})
    run.events("code/runs/" + name())
    run.events("code/runs/" + name(pid=4800, seconds=CREATED + 110))
    run.events("code/runs/" + name(pid=7, seconds=CREATED + 120))
    run.events("code/runs/" + name(pid=7, seconds=CREATED + 20))
    assert [(file.attempt, file.rank) for file in run.files()] == [(1, None), (1, 0), (0, None), (0, 0)]


def test_what_agents_have_seen_outside_of_the_run(run: RecordedRun, tmp_path: Path) -> None:
    path = write_events(tmp_path / "scratch" / name(), losses(2))
    run.attempt(0, CREATED - 3.0, {"0": 1})
    run.note(path, rank=3)
    assert run.files() == [EventFile(path, str(tmp_path / "scratch"), 3, 0)]
    assert unreadable_files(run.paths) == []


def test_nodes_may_reach_the_run_directory_by_another_path(run: RecordedRun) -> None:
    path = run.events("outputs/tb/" + name())
    run.note("/cluster/home/me/run/outputs/tb/" + name(), rank=2)
    assert run.files() == [EventFile(path, "outputs/tb", 2, 0)]
    assert unreadable_files(run.paths) == []


def test_files_on_the_disk_of_another_node_are_told(run: RecordedRun) -> None:
    run.attempt(0, CREATED - 3.0, {"0": 1}, "node3")
    run.note("/tmp/no-such-place/" + name())
    (found,) = unreadable_files(run.paths)
    assert str(found) == "rank 0 writes TensorBoard files on node3, which cannot be read here: /tmp/no-such-place"
    run.attempt(0, CREATED - 3.0, {"0": 1}, host_name())
    assert "in a container, or they were removed: /tmp/no-such-place" in str(unreadable_files(run.paths)[0])
    assert run.files() == []


def test_hostile_notes(run: RecordedRun, tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "tfevents-pipe")
    (tmp_path / "secret").write_text("x")
    lines: list[Any] = [
        {"path": str(tmp_path / "tfevents-pipe"), "rank": 0},
        {"path": str(tmp_path / "secret"), "rank": 0},
        {"path": "relative/tfevents", "rank": 0},
        {"path": "/a\0tfevents", "rank": 0},
        {"path": "/" + "a" * 5000 + "tfevents", "rank": 0},
        {"path": "/tfevents", "rank": "0"},
        {"path": 3, "rank": 0},
        {"path": "/\ud800/tfevents", "rank": 0},
        {"path": "/run/" * 500 + "../tfevents", "rank": 1},
        [1],
        None,
    ]
    text = "\n".join([*map(json.dumps, lines), "[" * 100_000, '{"path": "/tfev'])
    run.write("attempt-0/metrics/files-0000.jsonl", text)
    run.write("attempt-x/metrics/files-0000.jsonl", text)
    run.write("attempt-0/metrics/files-" + "9" * 100 + ".jsonl", text)
    run.write(
        "attempt-0/events/node-0000.jsonl", '{"event": "ranks_started", "pids": [1]}\n{"event": "agent_started"}\n'
    )
    run.events("code/" + name())
    assert len(run.files()) == 1
    unreadable = [each.path for each in unreadable_files(run.paths)]
    assert unreadable == [str(tmp_path / "tfevents-pipe"), "/\ud800/tfevents", "/run/" * 500 + "../tfevents"]


@pytest.mark.parametrize("form", ["%s", "--log_dir=%s", "python train.py --log_dir '%s' && true"])
def test_directories_that_the_command_names(run: RecordedRun, tmp_path: Path, form: str) -> None:
    run.attempt(0, CREATED - 3.0, {"0": 4711})
    scratch = tmp_path / "scratch"
    mine = write_events(scratch / "v0" / name(), losses(2))
    write_events(scratch / "v0" / name(host="node2"), losses(2))
    write_events(scratch / "v0" / name(seconds=CREATED - 1000), losses(2))
    write_events(scratch / "v0" / name(pid=4), losses(2))
    run.plan(["bash", "-c", form % scratch])
    assert run.files() == [EventFile(mine, str(scratch / "v0"), 0, 0)]
    run.plan(["true"], {"TB": str(scratch)})
    assert len(run.files()) == 1


def test_a_file_that_names_no_process_is_the_runs_by_host_and_time(run: RecordedRun, tmp_path: Path) -> None:
    run.attempt(0, CREATED - 3.0, {"0": 4711})
    scratch = tmp_path / "scratch"
    path = write_events(scratch / ("events.out.tfevents.%d.node1" % CREATED), losses(2))
    write_events(scratch / ("events.out.tfevents.%d.node1" % (CREATED + 10_000)), losses(2))
    run.write("result.json", json.dumps({"summary": {"ended": CREATED + 60.0}}))
    run.plan(["python", "train.py", str(scratch), "/etc", "/", str(run.root), "relative"])
    assert run.files() == [EventFile(path, str(scratch), None, 0)]


def test_what_lies_elsewhere_is_left_out_of_another_users_run(run: RecordedRun, tmp_path: Path) -> None:
    run.attempt(0, CREATED - 3.0, {"0": 4711})
    mine = write_events(tmp_path / "mine" / name(), losses(2))
    run.plan(["python", "train.py", str(tmp_path / "mine")])
    (run.root / "linked").symlink_to(tmp_path / "mine")
    seen = [{"path": mine, "rank": 0}, {"path": str(run.root / "linked" / name()), "rank": 0}]
    for notes in ([], seen):
        run.write("attempt-0/metrics/files-0000.jsonl", "".join(json.dumps(note) + "\n" for note in notes))
        assert run.files() == [EventFile(mine, str(tmp_path / "mine"), 0, 0)]
        assert read_tensorboard_inside(run.paths) == []


@pytest.mark.parametrize("plan", ["", "[]", '{"argv": 3, "environment": [1], "created": "x"}', "{"])
def test_a_damaged_plan(run: RecordedRun, plan: str) -> None:
    run.write("plan.json", plan)
    assert run.files() == []


def test_nothing_at_all(tmp_path: Path) -> None:
    paths = RunPaths(str(tmp_path / "none"))
    assert read_tensorboard(paths) == [] == unreadable_files(paths)


def test_the_walk_follows_no_link_and_reads_no_special_file(tmp_path: Path) -> None:
    outside = write_events(tmp_path / "outside" / name(), losses(1))
    root = tmp_path / "root"
    inside = write_events(root / "a" / name(), losses(1))
    (root / "link").symlink_to(tmp_path / "outside")
    (root / name(pid=2)).symlink_to(outside)
    (root / "loop").symlink_to(root)
    os.mkfifo(root / name(pid=3))
    (root / name(pid=4)).mkdir()
    write_events(root / ".git" / name(), losses(1))
    assert list(find_event_files(str(root))) == [inside]


def test_the_walk_is_bounded(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for number in range(20):
        write_events(tmp_path / ("d%d" % number) / name(), b"")
        os.utime(tmp_path / ("d%d" % number), (number, number))
    found = list(find_event_files(str(tmp_path), entries=25))
    assert [os.path.basename(os.path.dirname(path)) for path in found] == ["d19", "d18", "d17", "d16", "d15"]
    monkeypatch.setattr(directory_walk, "MOST_LEVELS", 1)
    assert list(find_event_files(str(tmp_path))) == []


def test_directories_of_the_run_itself_are_not_walked(run: RecordedRun) -> None:
    for place in ("attempt-0", "inrank", "mlruns/1"):
        run.events(place + "/" + name())
    kept = run.events("tb/" + name())
    assert [file.path for file in run.files()] == [kept]


def test_a_run_directory_that_is_reached_by_a_link(run: RecordedRun, tmp_path: Path) -> None:
    path = run.events("code/" + name())
    run.note(path, rank=1)
    (tmp_path / "link").symlink_to(run.root)
    assert event_files(RunPaths(str(tmp_path / "link"))) == [EventFile(path, "code", 1, 0)]


def test_times_of_runs_that_have_not_ended(run: RecordedRun, tmp_path: Path) -> None:
    run.attempt(0, CREATED - 3.0, {"0": 1})
    now = int(time.time())
    path = write_events(tmp_path / "scratch" / name(seconds=now), losses(1))
    run.plan([str(tmp_path / "scratch")])
    assert [file.path for file in run.files()] == [path]


def test_of_very_many_attempts_the_newest_are_read(
    run: RecordedRun, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(run_files, "MAX_ATTEMPTS", 2)
    for attempt in range(4):
        run.attempt(attempt, CREATED + attempt, {"0": attempt + 1})
        run.note(str(tmp_path / "gone" / str(attempt) / name()), rank=attempt, attempt=attempt)
    assert [each.rank for each in unreadable_files(run.paths)] == [2, 3]
