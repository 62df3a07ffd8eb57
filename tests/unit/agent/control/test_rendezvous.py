"""How long a node looks for its head, by a clock that goes while it sleeps."""

from __future__ import annotations

import os
from collections.abc import Callable

import pytest
from clocks import Clock

from worldsize.agent.control.rendezvous import Rendezvous, wait_for_rendezvous
from worldsize.common.atomic_files import write_json
from worldsize.errors import DamagedRun
from worldsize.plan.run_paths import RunPaths
from worldsize.state.records import ExitRecord

HEAD = Rendezvous("10.0.0.1", 29500, 4000, "5ecre7")


class Wait:
    """`at` is called with the seconds that have passed, before each look but the first."""

    def __init__(self, root: str, at: Callable[[Wait, float], None] = lambda wait, seconds: None) -> None:
        self.paths = RunPaths(root)
        os.makedirs(os.path.dirname(self.paths.rendezvous), exist_ok=True)
        self.clock = Clock()
        self.pauses: list[float] = []
        self._began = self.clock.now
        self._at = at

    @property
    def seconds(self) -> float:
        return self.clock.now - self._began

    def publish(self) -> None:
        write_json(self.paths.rendezvous, HEAD._asdict())

    def sleep(self, seconds: float) -> None:
        self.pauses.append(seconds)
        self.clock.now += seconds
        self._at(self, self.seconds)

    def result(self, timeout: float) -> Rendezvous | None:
        return wait_for_rendezvous(self.paths, timeout, self.clock, self.sleep)


def test_a_head_that_is_there_is_found_without_a_pause(tmp_path) -> None:
    wait = Wait(str(tmp_path))
    wait.publish()
    assert wait.result(0.0) == HEAD and wait.pauses == []


@pytest.mark.parametrize("after", [0.001, 0.5, 59.0])
def test_a_head_that_comes_is_found_soon(tmp_path, after: float) -> None:
    wait = Wait(str(tmp_path), lambda wait, seconds: wait.publish() if seconds >= after else None)
    assert wait.result(60.0) == HEAD
    assert wait.seconds <= after + max(0.002, min(after, 0.5))


@pytest.mark.parametrize("timeout", [0.0, 0.3, 300.0])
def test_a_head_that_never_comes_is_given_up_after_the_timeout(tmp_path, timeout: float) -> None:
    wait = Wait(str(tmp_path))
    assert wait.result(timeout) is None
    assert timeout < wait.seconds <= timeout + 0.5
    assert wait.pauses == sorted(wait.pauses) and set(wait.pauses[:1]) == {0.002} and max(wait.pauses) <= 0.5


def test_a_head_that_comes_at_the_last_moment_is_found(tmp_path) -> None:
    wait = Wait(str(tmp_path), lambda wait, seconds: wait.publish() if seconds > 5.0 else None)
    assert wait.result(5.0) == HEAD


@pytest.mark.parametrize("publishes", [True, False])
def test_a_head_that_has_ended_is_not_waited_for(tmp_path, publishes: bool) -> None:
    def end(wait: Wait, seconds: float) -> None:
        if seconds >= 5.0:
            if publishes:
                wait.publish()
            os.makedirs(wait.paths.exit_dir, exist_ok=True)
            record = ExitRecord(0, "h", 0, 1.0, 2.0, (), "failure", None, 3)
            write_json(wait.paths.exit_record(0), record.to_json())

    wait = Wait(str(tmp_path), end)
    assert wait.result(300.0) == (HEAD if publishes else None)
    assert wait.seconds < 6.0


@pytest.mark.parametrize("text", ["", "[]", "5", '{"address": "10.0.0.1"}'])
def test_a_file_that_a_failing_disk_has_damaged_is_named(tmp_path, text: str) -> None:
    wait = Wait(str(tmp_path))
    with open(wait.paths.rendezvous, "w") as file:
        file.write(text)
    with pytest.raises(DamagedRun, match="cannot be understood") as caught:
        wait.result(60.0)
    assert caught.value.where == wait.paths.rendezvous


def test_what_a_newer_head_adds_is_left_out(tmp_path) -> None:
    wait = Wait(str(tmp_path))
    write_json(wait.paths.rendezvous, {**HEAD._asdict(), "added": 1})
    assert wait.result(0.0) == HEAD
