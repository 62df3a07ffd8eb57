"""What is read of a run's directory for its efficiency, and where it is shown: recorded runs, damaged ones too."""

from __future__ import annotations

import argparse
import json
import os
from collections.abc import Callable
from typing import Any

import pytest

from worldsize.cli.runs import status as status_verb
from worldsize.cli.runs import wait as wait_verb
from worldsize.cli.runs.follow import RunProgress
from worldsize.common.atomic_files import write_json, write_text
from worldsize.plan.plan import Plan, node_major_layout
from worldsize.plan.run_paths import RunPaths
from worldsize.service.runs.run import Run
from worldsize.state.records import ExitRecord, Failure, RankExit, Reason, RunState, Status
from worldsize.store.runs import create_run
from worldsize.wings.metrics import provider
from worldsize.wings.metrics.agent.records import NodeUse, SamplesHeader

GIB = 1 << 30
HEADER = SamplesHeader(1, 1000.0, "h", 0, 64, 256 * GIB)
USE = NodeUse(110.0, 20, 847.0, 31 * GIB, None, None)
SAMPLE = b'{"sample":[1002.0,[]]}\n'
LINES = ["7.7 of 64 cores used; highest memory 31 GiB of 256 GiB", "31 s of 120 s before the ranks began"]
ENDED = Status(RunState.SUCCEEDED, exit_code=0, started=1000.0, ended=1120.0)

Make = Callable[..., Run]


@pytest.fixture
def make(tmp_path: Any, monkeypatch: pytest.MonkeyPatch) -> Make:
    """A function that records a run on this machine, which took 120 s, with its files of samples as they are given."""
    monkeypatch.setenv("WORLDSIZE_HOME", str(tmp_path))

    def record(*samples: bytes, metrics: bool = True, ended: bool = True, attempt: int = 0) -> Run:
        paths = RunPaths(create_run(str(tmp_path), now=lambda: 1000.0).root, attempt)
        for directory in paths.directories():
            os.makedirs(directory, exist_ok=True)
        layout = node_major_layout(len(samples), 1)
        plan = Plan(paths.run_id, "t", "local", 1000.0, 0, layout, ("true",), {}, metrics=metrics)
        write_text(paths.plan, plan.to_json())
        write_json(paths.record, {})
        write_json(
            paths.handle, {"type": "local", "host": "elsewhere", "pid": 1, "start_time": 1, "run_id": paths.run_id}
        )
        write_text(paths.events(0), '{"event":"ranks_started","time":1031.0}\n')
        os.makedirs(paths.samples_dir, exist_ok=True)
        os.makedirs(paths.metrics_dir, exist_ok=True)
        for node, data in enumerate(samples):
            with open(paths.samples(node), "wb") as file:
                file.write(data)
            if ended:
                exits = (RankExit(node, 0, 1031.0, 1120.0),)
                done = ExitRecord(node, "h", attempt, 1000.0, 1120.0, exits, None, None, 0)
                write_json(paths.exit_record(node), done.to_json())
        return Run(paths, os.environ)

    return record


def samples(header: SamplesHeader = HEADER, use: NodeUse = USE, count: int = 20) -> bytes:
    first, last = ({"header": header._asdict()}, {"use": use._asdict()})
    return json.dumps(first).encode() + b"\n" + SAMPLE * count + json.dumps(last).encode() + b"\n"


def lists() -> bytes:
    """The same, with lists in the place of objects."""
    return b'{"header":%s}\n%s{"use":%s}\n' % (json.dumps(HEADER).encode(), SAMPLE, json.dumps(USE).encode())


@pytest.mark.parametrize("data", [samples(), samples(count=0), samples(count=100_000), lists()], ids=len)
def test_the_ends_of_a_file_are_enough(make: Make, data: bytes) -> None:
    assert provider.efficiency_lines(make(data), ENDED) == LINES


def test_gpus_are_read(make: Make) -> None:
    data = samples().replace(b'"gpus": [], "interfaces"', b'"gpus": [[0, "GPU-a", "H100", null]], "interfaces"')
    data = data.replace(b'"gpus": []', b'"gpus": [{"gpu": 0, "busy": 0.5, "memory": 9, "power": 1.0, "own": true}]')
    assert provider.efficiency_lines(make(data), ENDED)[0] == "1 GPU 50 % busy, 1 W"


@pytest.mark.parametrize(
    "data",
    [
        b"",
        b"\n",
        b"{}\n{}\n",
        b"\xff\x00" * 5000,
        samples()[:-1],
        samples()[:-20] + b"\n",
        samples() + SAMPLE,
        samples()[1:],
        samples(HEADER._replace(version=2)),
        samples(HEADER._replace(node_rank=1)),
        samples(HEADER._replace(cores="64")),  # type: ignore[arg-type]
        samples(use=USE._replace(cpu=1e300)),
        samples(use=USE._replace(cpu=float("nan"))),
        samples(use=USE._replace(gpus=5)),  # type: ignore[arg-type]
        samples(use=USE._replace(gpus=((1, 2),))),  # type: ignore[arg-type]
        b'{"header":' + b"[" * 9000 + b"\n",
        b'{"header":[]}\n{"use":[]}\n',
        b"x" * 100_000,
        samples(HEADER._replace(host="h" * 20_000)),
    ],
)
def test_of_what_cannot_be_understood_nothing_is_said(make: Make, data: bytes) -> None:
    run = make(data)
    assert provider.efficiency_lines(run, ENDED) == [] and provider.efficiency_data(run, ENDED) is None


def test_what_is_no_file_is_not_waited_for(make: Make) -> None:
    run = make(samples())
    os.unlink(run.paths.samples(0))
    os.mkfifo(run.paths.samples(0))
    os.mkfifo(run.paths.logged_values(0))
    assert provider.efficiency_lines(run, ENDED) == []
    os.unlink(run.paths.samples(0))
    assert provider.efficiency_lines(run, ENDED) == []


@pytest.mark.parametrize(
    ("lines", "start"),
    [
        ([(1, 1040.0), (1, 1040.5), (2, 1041.0)], "40 s of 120 s before the first logged step"),
        ([(None, 1035.0), (0, 1040.0), (10, 1041.0)], "40 s of 120 s before the first logged step"),
        ([(1, 1040.0)], LINES[1]),
        ([(1, 1040.0), (2, 1110.0)], LINES[1]),
        ([(1, "x"), (None, None), (True, 1040.0), ([], 1.0)], LINES[1]),
    ],
)
def test_the_first_steps_of_the_lowest_rank_that_logs(make: Make, lines: list[Any], start: str) -> None:
    run = make(samples())
    texts = [json.dumps({"time": time, "step": step, "values": {"loss": 1.0}}) for step, time in lines]
    write_text(run.paths.logged_values(3), "\n".join(["{", *texts, '{"time":']))
    write_text(run.paths.logged_values(7), '{"time":1001.0,"step":1}\n{"time":1002.0,"step":2}\n')
    assert provider.efficiency_lines(run, ENDED)[1] == start


def test_a_later_attempts_own_samples_are_read(make: Make) -> None:
    run = make(samples(), attempt=1)
    assert provider.efficiency_lines(run, ENDED) == ["attempt 1: " + line for line in LINES]


SHORT = ENDED._replace(ended=1059.0)
UNKNOWN = ENDED._replace(started=None)
LOST = ENDED._replace(state=RunState.LOST)
RUNNING = ENDED._replace(state=RunState.RUNNING)


@pytest.mark.parametrize(
    "status", [SHORT, UNKNOWN, ENDED._replace(ended=None), LOST, RUNNING, ENDED._replace(ended=9.0)]
)
def test_of_a_run_that_is_short_or_has_not_ended_nothing_is_said(make: Make, status: Status) -> None:
    run = make(samples())
    assert provider.efficiency_lines(run, status) == [] and provider.efficiency_data(run, status) is None


def test_a_run_without_metrics_is_not_read(make: Make) -> None:
    assert provider.efficiency_lines(make(samples(), metrics=False), ENDED) == []


def outcome(run: Run, status: Status) -> list[str]:
    return RunProgress(run, "off", True).outcome([status])


def test_below_the_end_of_a_run_that_somebody_follows(make: Make) -> None:
    run = make(samples())
    assert outcome(run, ENDED) == LINES and outcome(run, SHORT) == []
    write_text(run.paths.outputs + "/model", "x")
    assert outcome(run, ENDED) == [*LINES, "outputs: " + run.paths.outputs]
    failure = Failure(Reason.OUT_OF_MEMORY, "rank 0 was killed", 0, 0, 137, 1120.0)
    failed = Status(RunState.FAILED, failure.reason, 137, failure.message, failure, 1000.0, 1120.0)
    assert outcome(run, failed)[0] == "rank 0 was killed" and outcome(run, failed)[-3:] == ["", *LINES]
    assert outcome(run, failed._replace(ended=1003.0))[-1].startswith("full log: ")


def shown(run: Run, verb: str, output: str, capsys: pytest.CaptureFixture[str]) -> tuple[str, str]:
    act = {"status": status_verb.show_status, "wait": wait_verb.wait}[verb]
    act(argparse.Namespace(run=run.id, output=output, timeout=5.0))
    said = capsys.readouterr()
    return said.out, said.err


def test_status_and_wait_show_the_lines_and_programs_get_the_figures(make: Make, capsys: Any) -> None:
    run = make(samples())
    lines = shown(run, "status", "text", capsys)[0].split("\n")
    at = lines.index(LINES[0])
    assert lines[at : at + 2] == LINES and ", ran for 2 min" in lines[at - 1]
    assert shown(run, "wait", "text", capsys)[1].split("\n")[1:3] == LINES
    for verb in ("status", "wait"):
        data = json.loads(shown(run, verb, "json", capsys)[0])
        assert data["efficiency"]["cpu"] == {"used": 7.7, "cores": 64} and data["efficiency"]["text"] == LINES
        assert data["progress"] is None


def test_status_of_a_running_run_shows_its_latest_values(
    make: Make, capsys: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    run = make(samples(), ended=False)
    asked: list[str] = []

    def latest(paths: RunPaths) -> str:
        asked.append(paths.root)
        return "step 1200, loss\x1b 0.32, 12 s ago"

    monkeypatch.setattr(provider, "progress_text", latest)
    running = Status(RunState.RUNNING, started=1000.0)
    monkeypatch.setattr(Run, "look", lambda *_, **__: running)
    text = shown(run, "status", "text", capsys)[0]
    assert "step 1200, loss" in text and "\x1b" not in text
    data = json.loads(shown(run, "status", "json", capsys)[0])
    assert data["progress"] == "step 1200, loss\x1b 0.32, 12 s ago" and data["efficiency"] is None
    assert set(asked) == {run.paths.root}
    asked.clear()
    monkeypatch.setattr(Run, "look", lambda *_, **__: Status(RunState.QUEUED))
    assert "step 1200" not in shown(run, "status", "text", capsys)[0] and not asked
