"""Pages of runs whose records hold anything: there is a page, or one sentence."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from recorded_reports import FAILED, ReadPage, record_run, write

from worldsize.errors import WorldsizeError
from worldsize.plan.run_paths import RunPaths
from worldsize.service.runs.run import Run
from worldsize.wings.report.command import make_report

STRANGE: list[Any] = [
    None, True, -1, 10**30, 1e308, "", "\x1b[2J\u202e<b>", "x" * 10_000, [], [[]], [None], {}, {"a": {"b": [1]}},
    ["x", 1], [{"rank": "a"}],
]  # fmt: skip


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> RunPaths:
    return record_run(str(tmp_path_factory.mktemp("home")), codes={2: 1})


def page_or_sentence(paths: RunPaths) -> None:
    try:
        page = ReadPage(make_report(Run(paths, {}), [FAILED], 20))
    except WorldsizeError as error:
        assert error.what
    else:
        assert "FAILED" in page.texts["run"]
        assert not {tag for tag, _ in page.tags} & {"script", "iframe", "object", "img", "link", "b"}


def spoilt(value: dict[str, Any], each: int) -> list[dict[str, Any]]:
    """The value with one key after the other replaced by `each` of the strange values."""
    cycle = STRANGE * (len(value) + 1)
    return [{**value, key: strange} for k, key in enumerate(value) for strange in cycle[k * each : (k + 1) * each]]


EACH = pytest.mark.parametrize("each", [1, pytest.param(len(STRANGE), marks=pytest.mark.exhaustive)])
KINDS = ("agent_started", "ranks_started", "notice", "stopping", "prepared", "unjoined")


@pytest.mark.heavy
@EACH
@pytest.mark.parametrize("file", ["plan", "record", "exit", "errors", "check"])
def test_a_record_with_strange_values(run: RunPaths, file: str, each: int) -> None:
    path = {
        "plan": run.plan, "record": run.record, "exit": run.exit_record(1), "errors": run.rank_error(2),
        "check": run.attempt_dir + "/check.json",
    }[file]  # fmt: skip
    before = Path(path).read_text() if Path(path).exists() else None
    value = {
        "errors": {"type": "ValueError", "message": "m", "frames": [], "time": 1.0, "stack": []},
        "check": {"version": 1, "mode": "full", "seconds": 1, "hosts": [], "rows": []},
    }.get(file) or json.loads(before or "{}")
    if file == "record":
        value.update(python={"packages": {}}, git={}, code={}, environment={}, cwd="/", created=1.0)
    try:
        for strange in spoilt(value, each):
            write(path, strange)
            page_or_sentence(run)
    finally:
        write(path, before or "")


def test_events_with_strange_values(run: RunPaths) -> None:
    before = Path(run.events(0)).read_text()
    events = [{"time": 1.0, "event": kind, "pids": {}, "cpus": {}, "text": "t", "host": "h"} for kind in KINDS]
    lines = [json.dumps(strange) + "\n" for event in events for strange in spoilt(event, len(STRANGE))]
    write(run.events(0), "".join(lines))
    page_or_sentence(run)
    write(run.events(0), before)
