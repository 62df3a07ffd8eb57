"""What a self-test has started is found by its files and its processes, and ended."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

from worldsize.errors import SubmitAgain
from worldsize.state.records import Observation
from worldsize.wings.selftest.remains import end_jobs, handles_below, hosts_below, processes_below


class Clock:
    def __init__(self) -> None:
        self.now = 0.0

    def __call__(self) -> float:
        return self.now

    def sleep(self, seconds: float) -> None:
        self.now += seconds


class Queue:
    """A compute whose jobs end so many questions after they were cancelled."""

    def __init__(self, questions: int, silent: int = 0) -> None:
        self.left, self.silent, self.cancelled = questions, silent, []  # type: ignore[var-annotated]

    def observe(self, handles: list[Any]) -> list[Observation]:
        if self.silent:
            self.silent -= 1
            raise SubmitAgain("no answer")
        self.left -= bool(self.cancelled)
        return [Observation("ended" if self.left <= 0 or each["job"] == 0 else "running") for each in handles]

    def cancel(self, handles: list[Any], now: bool) -> None:
        self.cancelled.append((list(handles), now))


def end(queue: Any, handles: list[Any], patience: float = 10) -> list[Any]:
    clock = Clock()
    return end_jobs(queue, handles, patience, clock, clock.sleep)


def test_handles_of_runs_and_arrays_are_found_and_damaged_ones_left_out(tmp_path: Path) -> None:
    files = {"a/handle.json": '{"job": 1}', "b/handle.json": "{", "c/handles.json": '[{"job": 2}, null, 3, {"job": 1}]'}
    for name, text in {**files, "d/handle.json": "\0" * 10, "e/plan.json": '{"job": 9}'}.items():
        (tmp_path / name).parent.mkdir()
        (tmp_path / name).write_text(text)
    for name in ("f", "g"):
        (tmp_path / name).mkdir()
    os.mkfifo(tmp_path / "f" / "handle.json")
    os.mkfifo(tmp_path / "f" / "node-0.json")
    (tmp_path / "g" / "handle.json").write_text("[" * 100_000)
    assert sorted(handle["job"] for handle in handles_below(str(tmp_path))) == [1, 2]
    assert hosts_below(str(tmp_path)) == set()
    assert handles_below(str(tmp_path / "none")) == []


def test_jobs_are_cancelled_once_at_once_and_waited_for() -> None:
    queue = Queue(3)
    assert end(queue, [{"job": 0}, {"job": 7}]) == []
    assert queue.cancelled == [([{"job": 7}], True)]


def test_what_has_ended_is_not_cancelled() -> None:
    queue = Queue(0)
    assert end(queue, [{"job": 5}]) == [] and queue.cancelled == []
    assert end(queue, []) == []


def test_what_does_not_end_is_left_and_a_silent_controller_is_asked_again() -> None:
    assert end(Queue(10**6), [{"job": 7}]) == [{"job": 7}]
    assert end(Queue(2, silent=3), [{"job": 7}]) == []
    assert end(Queue(2, silent=10**6), [{"job": 7}]) == [{"job": 7}]


def test_processes_by_their_home(tmp_path: Path) -> None:
    mine = "WORLDSIZE_HOME=/p/selftest-a"
    for pid, text in {"10": mine + "/x/home\0A=1", "11": "A=1\0" + mine + "/y\0", "12": mine + "b/x", "13": ""}.items():
        (tmp_path / pid).mkdir()
        (tmp_path / pid / "environ").write_text(text)
    (tmp_path / "14").mkdir()
    (tmp_path / "self").mkdir()
    assert sorted(processes_below("/p/selftest-a", str(tmp_path))) == [10, 11]


def test_hosts_that_nodes_have_told(tmp_path: Path) -> None:
    folder = tmp_path / "run" / "attempt-0" / "events"
    folder.mkdir(parents=True)
    (folder / "node-0000.jsonl").write_text(json.dumps({"event": "up", "host": "gpu-1"}) + "\n{torn")
    (folder / "node-0001.json").write_bytes(b'\xff\0{"host":"gpu-2"}')
    (folder / "other.json").write_text('{"host": "no"}')
    assert hosts_below(str(tmp_path)) == {"gpu-1", "gpu-2"}
