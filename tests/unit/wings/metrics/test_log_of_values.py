"""`worldsize.log`: what it takes for a number, and that a script never notices it."""

from __future__ import annotations

import json
import math
from decimal import Decimal
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

import worldsize

log = worldsize.log
module_of_log: Any = __import__("sys").modules["worldsize.wings.metrics.inrank.log"]


class Tensor:
    """As PyTorch's: `device` and `reads` say where it is, and how often its number was read."""

    def __init__(self, value: float, device: str = "cpu", shape: tuple[int, ...] = ()) -> None:
        self.value, self.device, self.shape, self.reads = value, SimpleNamespace(type=device), shape, 0

    def detach(self) -> Tensor:
        return self

    def clone(self) -> Tensor:
        return Tensor(self.value, self.device.type)

    def item(self) -> float:
        self.reads += 1
        return self.value


@pytest.fixture
def run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The file of rank 3 in the second attempt of a run."""
    for name, value in (("RUN_DIR", str(tmp_path)), ("ATTEMPT", "1"), ("RANK", "3")):
        monkeypatch.setenv("WORLDSIZE_" + name, value)
    start_anew(monkeypatch)
    (tmp_path / "attempt-1").mkdir(mode=0o700)
    return tmp_path / "attempt-1" / "metrics" / "rank-00003.jsonl"


def start_anew(monkeypatch: pytest.MonkeyPatch) -> None:
    for name, value in (("_file", None), ("_is_started", False), ("_told", [])):
        monkeypatch.setattr(module_of_log, name, value)


def written(path: Path) -> list[Any]:
    module_of_log._file.close()
    return [json.loads(line) for line in path.read_text().splitlines()]


def test_a_call_is_a_line_of_the_ranks_own_file(run: Path) -> None:
    log(step=10, loss=0.31, rate=1)
    line = written(run)[0]
    assert isinstance(line.pop("time"), float)
    assert line == {"step": 10, "values": {"loss": 0.31, "rate": 1.0}}
    assert (run.stat().st_mode & 0o777, run.parent.stat().st_mode & 0o777) == (0o600, 0o700)


def test_names_that_are_no_identifiers_come_in_a_mapping(run: Path) -> None:
    log({"train/loss": 0.5, "step": 7}, step=2, rate=1.0)
    log({"a": 1}, 3)
    log(4, a=2)
    log(a=3)
    lines = [(line["step"], line["values"]) for line in written(run)]
    assert lines == [
        (2, {"train/loss": 0.5, "step": 7.0, "rate": 1.0}),
        (3, {"a": 1.0}),
        (4, {"a": 2.0}),
        (None, {"a": 3.0}),
    ]


def test_what_is_no_finite_number_in_json_is_a_text(run: Path) -> None:
    log(a=math.nan, b=math.inf, c=-math.inf)
    assert written(run)[0]["values"] == {"a": "nan", "b": "inf", "c": "-inf"}


def test_steps_that_are_whole_numbers(run: Path) -> None:
    for step in (True, 5.0, 5.5, "6", Tensor(7.0), Tensor(8.0, "xpu"), math.nan, None, 10**30):
        log(step=step, a=1)
    assert [line["step"] for line in written(run)] == [1, 5, None, None, 7, 8, None, None, 10**30]


def test_numbers_of_all_kinds_and_what_is_none(run: Path, capsys: pytest.CaptureFixture[str]) -> None:
    class Broken:
        def __float__(self) -> float:
            raise RuntimeError("boom")

    numbers: tuple[Any, ...] = (True, 3, Decimal("0.5"), Tensor(4.0, shape=(1, 1)), Tensor(5.0, "xpu"))
    for value in (*numbers, "1", b"2", None, [1.0], {}, Broken(), Tensor(1.0, shape=(2,)), 10**400, 1j):
        log(a=value)
    assert [line["values"]["a"] for line in written(run)] == [1.0, 3.0, 0.5, 4.0, 5.0]
    assert capsys.readouterr().err == "worldsize.log: 'a' is left out: a str is not a number\n", "once"


def test_a_tensor_on_a_device_is_copied_and_read_later(run: Path) -> None:
    class Copied(Tensor):
        def clone(self) -> Tensor:
            self.copy = Tensor(self.value, self.device.type)
            return self.copy

    tensor = Copied(1.0, "xpu")
    later = module_of_log.number_of(tensor)
    tensor.value = 2.0
    assert (tensor.reads, tensor.copy.reads) == (0, 0)
    assert (later(), tensor.reads) == (1.0, 0), "a change in place is not seen"


def test_a_cuda_tensor_goes_to_pinned_memory_behind_an_event(monkeypatch: pytest.MonkeyPatch) -> None:
    said: list[str] = []

    class Event:
        def __init__(self, blocking: bool) -> None:
            said.append("event %s" % blocking)

        def record(self, stream: str) -> None:
            said.append("record on " + stream)

        def synchronize(self) -> None:
            said.append("wait")

    class Cuda(Tensor):
        def to(self, device: str, non_blocking: bool) -> Tensor:
            said.append("to %s %s" % (device, non_blocking))
            return Tensor(self.value)

    torch = SimpleNamespace(cuda=SimpleNamespace(Event=Event, current_stream=lambda device: "stream of " + device.type))
    monkeypatch.setitem(__import__("sys").modules, "torch", torch)
    later = module_of_log.number_of(Cuda(3.0, "cuda"))
    assert said == ["event True", "to cpu True", "record on stream of cuda"], "nothing is waited for"
    assert (later(), said[-1]) == (3.0, "wait")


def test_a_part_of_a_number_that_ranks_share_is_left_out() -> None:
    class Distributed(Tensor):
        placements = (SimpleNamespace(is_replicate=lambda: False),)

    assert module_of_log.number_of(Distributed(1.0)) is None


def test_a_device_that_fails_loses_its_value_alone(run: Path) -> None:
    class Failing(Tensor):
        def clone(self) -> Failing:
            return self

        def item(self) -> float:
            raise RuntimeError("CUDA error")

    log(step=1, a=Failing(1.0, "xpu"), b=2)
    log(step=2, a=Failing(1.0, "xpu"))
    log(step=3, a=1)
    assert [(line["step"], line["values"]) for line in written(run)] == [(1, {"b": 2.0}), (3, {"a": 1.0})]


def test_names_and_counts_have_a_most(run: Path, capsys: pytest.CaptureFixture[str]) -> None:
    log({"x" * 1000: 1, 7: 2, "line\nbreak\ud800": 3})
    log({str(number): number for number in range(1000)})
    first, second = written(run)
    assert first["values"] == {"x" * 256: 1.0, "7": 2.0, "line\nbreak\ud800": 3.0}
    assert len(second["values"]) == 256
    assert capsys.readouterr().err == "worldsize.log: '256' is left out: one call logs at most 256 values\n"


def test_outside_a_run_nothing_is_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("WORLDSIZE_RUN_DIR", raising=False)
    start_anew(monkeypatch)
    log(step=1, loss=2)
    assert module_of_log._file is None


def test_nothing_is_raised(run: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    class Strange:
        def items(self) -> Any:
            raise RuntimeError("boom")

        def keys(self) -> Any:
            raise RuntimeError("boom")

    log(Strange(), step=1)
    monkeypatch.setenv("WORLDSIZE_RANK", "three")
    start_anew(monkeypatch)
    log(loss=1)
    assert capsys.readouterr().err.count("logging is off") == 2
