"""Each section of a run's page, from recorded runs and values."""

from __future__ import annotations

import json
import os
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from recorded_reports import FAILED, MADE, SUCCEEDED, ReadPage, facts_of, record_run, write

from worldsize.errors import ConfigError
from worldsize.plan.run_paths import RunPaths
from worldsize.service.runs.run import Run
from worldsize.state.records import RunWarning, Status
from worldsize.wings.metrics.series import Point, Series
from worldsize.wings.report.facts import RunFacts
from worldsize.wings.report.page import run_page
from worldsize.wings.report.sections import files, ranks
from worldsize.wings.report.sections.node_use import node_use


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    monkeypatch.setenv("WORLDSIZE_HOME", str(tmp_path))
    return str(tmp_path)


def texts(facts: RunFacts) -> dict[str, str]:
    return ReadPage(run_page(facts)).texts


class Pictures:
    """The wing's own, but that charts are kept instead of drawn; with an error, as without matplotlib."""

    def __init__(self, facts: RunFacts, error: Exception | None = None) -> None:
        self._wing, self._error = facts.pictures, error
        self.charts: list[Any] = []

    def __getattr__(self, name: str) -> Any:
        return getattr(self._wing, name)

    def draw_chart(self, chart: Any) -> Any:
        if self._error:
            raise self._error
        self.charts.append(chart)
        return self._wing.element("p", chart.title)


def point(step: int | None, value: float, time: float = MADE + 10, attempt: int = 0) -> Point:
    return Point(step, time, value, attempt)


def series(name: str, points: list[Point], rank: int | None = 0, source: str = "log") -> Series:
    return Series(name, source, rank, tuple(points))


# ranks


def test_ranks_and_how_they_ended(home: str) -> None:
    paths = record_run(home, codes={1: 137, 2: 1})
    write(paths.rank_error(2), {"type": "ValueError", "message": "bad <b>", "frames": [], "time": MADE})
    rows = texts(facts_of(paths, FAILED))["ranks"].split("\n")
    assert rows[0].endswith("rank|role|node|host|pid|started after|ran for|exit code|error|log|")
    assert rows[1] == "0|worker 0|0|n0|100|8.0 s|12 s|0||log|"
    assert "|137 (SIGKILL)||log|" in rows[2] and "|1|ValueError: bad <b>|log|" in rows[3]


def test_many_ranks_are_folded_but_for_those_that_failed(home: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ranks, "_SHOWN", 4)
    monkeypatch.setattr(ranks, "_MOST", 5)
    text = texts(facts_of(record_run(home, 2, 4, codes={6: 9}), SUCCEEDED))["ranks"]
    shown, folded = text.split("4 other ranks (and 3 more, left out)")
    assert "6|worker 6|1|n1|" in shown and "0|worker 0|" not in shown and folded.count("worker") == 4


def test_ranks_that_were_not_started(home: str) -> None:
    paths = record_run(home)
    os.unlink(paths.exit_record(1))
    record = json.loads(Path(paths.exit_record(0)).read_text())
    write(paths.exit_record(0), {**record, "ranks": []})
    rows = texts(facts_of(paths))["ranks"].split("\n")
    assert "|not started|" in rows[1] and "not started" not in rows[3]


# what is said


def test_warnings_and_notices(home: str) -> None:
    paths = record_run(home)
    events = Path(paths.events(1)).read_text()
    write(
        paths.events(1),
        events + json.dumps({"time": MADE, "event": "notice", "text": "slow --api-key=abc12345"}) + "\n",
    )
    status = SUCCEEDED._replace(warnings=(RunWarning("uncaught-exception", "rank 0 left a ValueError", 0),))
    text = texts(facts_of(paths, status))["notices"]
    assert "warning: rank 0 left a ValueError\nnotice: slow --api-key=***\n" in text


def test_checks(home: str) -> None:
    paths = record_run(home)
    row = {"node": "n0", "id": "gpu.memory", "what": "GPU memory", "value": "0 of 8", "verdict": "bad", "hint": "x"}
    write(paths.attempt_dir + "/check.json", {"version": 1, "rows": [{**row, "verdict": "ok"}, row]})
    text = texts(facts_of(paths))["checks"]
    assert "bad|n0|gpu.memory|GPU memory|0 of 8|x|" in text and "1 row without a fault" in text
    write(paths.attempt_dir + "/check.json", {"version": 1, "rows": [{**row, "verdict": "splendid"}]})
    assert "cannot be read" in texts(facts_of(paths))["checks"]


def test_efficiency(home: str) -> None:
    facts = facts_of(record_run(home))
    said = SimpleNamespace(
        efficiency_lines=lambda run, status: ["2 of 4 GPUs unused"], read_node_samples=lambda *_: None
    )
    assert "2 of 4 GPUs unused" in texts(facts._replace(metrics=said))["efficiency"]
    assert "efficiency" not in texts(facts._replace(metrics=None))


# the timeline


@pytest.mark.heavy
def test_the_timeline(home: str) -> None:
    facts = facts_of(record_run(home), SUCCEEDED)._replace(series=[series("loss", [point(1, 0.5, MADE + 11)])])
    page = ReadPage(run_page(facts))
    text = page.texts["timeline"]
    assert "ranks started|2027-01-15 08:00:08 UTC, after 8.0 s" in text
    assert "first value logged|2027-01-15 08:00:11 UTC, after 11.0 s" in text
    names = [word for word in ("run", "node 0 n0", "node 1 n1", "rank 3: exit code 0") if word in text]
    assert len(names) == 4 and len([tag for tag, _ in page.tags if tag == "rect"]) >= 3 + 2 * 2 + 4


def test_many_nodes_are_folded(home: str) -> None:
    paths = record_run(home, 40, 1, codes={7: 1})
    text = texts(facts_of(paths, FAILED))["timeline"]
    first, found, folded = text.partition("40 nodes\n")
    assert found and "rank 7: exit code 1" in first and "node 1" not in first and "node 39 n39" in folded


def test_attempts_before_the_latest(home: str) -> None:
    paths = record_run(home, 1, 1)
    summary = {"state": "FAILED", "reason": "EXIT_CODE", "exit_code": 1, "started": MADE + 5, "ended": MADE + 21}
    write(paths.attempt_dir + "/result.json", {"summary": summary, "message": "", "failure": None})
    os.makedirs(os.path.join(paths.root, "attempt-1"))
    run = Run(RunPaths(paths.root), {})
    facts = facts_of(run.paths)
    assert facts.paths.attempt == 1
    text = texts(facts)
    assert "attempt 0: FAILED" in text["timeline"] and "attempt|1" in text["run"]


# values


def test_logged_values(home: str) -> None:
    facts = facts_of(record_run(home))
    loss = series("loss", [point(1, 4.0), point(2, 9.0), point(2, 3.0, attempt=1), point(3, float("nan"), attempt=1)])
    pictures = Pictures(facts)
    values = [series("loss", [point(1, 9.0)], rank=1), loss, series("speed", [point(None, 7.0)], None, "tensorboard")]
    text = texts(facts._replace(series=values, pictures=pictures))["metrics"]
    assert "loss|nan|3|3|4|0|log|2027-01-15 08:00:10 UTC|loss of rank 0 was nan for the first time at step 3|" in text
    assert "speed|7|-|7|7|-|tensorboard|" in text
    first, second = pictures.charts
    assert [line.label for line in first.lines] == ["rank 0", "rank 1"]
    assert list(first.lines[0].xs) == [1, 2, 3] and list(first.lines[0].ys)[:2] == [4.0, 3.0]
    assert second.x_label == "seconds" and list(second.lines[0].xs) == [0]


def test_charts_without_matplotlib(home: str) -> None:
    facts = facts_of(record_run(home))
    error = ConfigError("charts need matplotlib, which is not installed (extra plots)", None, "pip install it")
    text = texts(facts._replace(series=[series("loss", [point(1, 4.0)])], pictures=Pictures(facts, error)))["metrics"]
    assert text.count("Charts are left out: charts need matplotlib") == 1 and "loss|4|1|" in text


def test_more_names_than_charts(home: str) -> None:
    facts = facts_of(record_run(home))
    pictures = Pictures(facts)
    values = [series(f"name{number}", [point(1, 1.0)]) for number in range(30)]
    text = texts(facts._replace(series=values, pictures=pictures))["metrics"]
    assert len(pictures.charts) == 24 and "6 more names have no chart here" in text and "name29|" in text


def test_parameters_of_mlflow(home: str) -> None:
    facts = facts_of(record_run(home))
    read = {"run a": {"lr": "0.1", "api_key": "secret"}}
    metrics = SimpleNamespace(
        read_parameters=lambda _: read, efficiency_lines=lambda *_: [], read_node_samples=lambda *_: None
    )
    text = texts(facts._replace(metrics=metrics))["metrics"]
    assert "api_key|***|run a|" in text and "lr|0.1|run a|" in text


# what the nodes used


def sample(time: float, cpu: float, received: int | None = 0, gpus: tuple[Any, ...] = ()) -> SimpleNamespace:
    ranks = (SimpleNamespace(rank=0, cpu=cpu, memory=2 << 30), SimpleNamespace(rank=1, cpu=cpu, memory=1 << 30))
    return SimpleNamespace(time=MADE + time, ranks=ranks, received=received, sent=None, gpus=gpus)


def use_charts(facts: RunFacts, samples: dict[int, list[SimpleNamespace]]) -> dict[str, Any]:
    pictures = Pictures(facts)
    read = SimpleNamespace(
        read_node_samples=lambda _, node: SimpleNamespace(samples=samples[node]) if node in samples else None
    )
    node_use(facts._replace(metrics=read, pictures=pictures))
    return {chart.title: chart for chart in pictures.charts}


def test_what_nodes_used(home: str) -> None:
    gpus = tuple(SimpleNamespace(gpu=k, busy=0.25 + k / 2, memory=1 << 30, power=100.0) for k in range(2))
    samples = [sample(0, 0.0), sample(10, 5.0, 20 << 20, gpus), sample(20, 15.0, None)]
    charts = use_charts(facts_of(record_run(home)), {0: samples})
    cpu = charts["CPU"].lines[0]
    assert cpu.label == "node 0" and cpu.ys == [1.0, 2.0] and cpu.xs == [0.0, 10.0]
    assert charts["Memory of the ranks"].lines[0].ys == [3.0, 3.0]
    assert charts["Network, received and sent"].lines[0].ys[0] == 2.0
    assert charts["GPUs, mean of each node"].lines[0].ys[0] == 50.0
    assert charts["Power of the GPUs"].lines[0].ys[0] == 200.0 and charts["Memory of the GPUs"].lines[0].ys[0] == 2.0


def test_many_nodes_are_a_lowest_a_median_and_a_highest(home: str) -> None:
    samples = {node: [sample(0, 0.0), sample(10, node * 5.0), sample(20, node * 10.0)] for node in range(20)}
    charts = use_charts(facts_of(record_run(home, 20, 1)), samples)
    low, middle, high = charts["CPU"].lines
    assert (low.label, low.ys) == ("lowest of 20 nodes", [0.0, 0.0])
    assert middle.ys == [9.5, 9.5] and high.ys == [19.0, 19.0]


def test_nodes_without_samples_have_no_charts(home: str) -> None:
    facts = facts_of(record_run(home))
    assert use_charts(facts, {}) == {} and use_charts(facts, {0: [sample(0, 0.0)]}) == {}
    assert use_charts(facts, {0: [sample(0, 0.0), sample(0.01, 0.0)]}) == {}, "one point says nothing"


# the rest


def test_the_environment(home: str) -> None:
    paths = record_run(home, environment={"LR": "1", "MY_TOKEN": "abc"})
    record = {
        "python": {"version": "3.12.1", "packages": {"torch": "2.9"}},
        "git": {"commit": "abcdef", "branch": "main"},
        "environment": {"HOME": "/home/ada", "HF_TOKEN": "0123456789", "OMP_NUM_THREADS": None, "PATH_OF_MINE": "x"},
    }
    write(paths.record, record)
    write(paths.environment, {"pip": [{"name": "einops", "version": "1.0"}, 7], "conda": 5})
    write(paths.diff, "-a\n+b\n")
    found = texts(facts_of(paths))
    text = found["environment"]
    assert "Python|3.12.1\n" in text and "git commit|abcdef\n" in text
    assert "2 packages\npackage|version|\ntorch|2.9|\neinops|1.0|" in text
    assert "code.diff: 6 B" in text and "0123456789" not in str(found)
    assert "2 submitter's variables\nname|value|\nHF_TOKEN|***|\nOMP_NUM_THREADS||\n" in text
    assert "/home/ada" not in text and "2 other variables of the submitter left out" in text
    assert "HOME|/home/ada|" in texts(facts_of(paths)._replace(every_variable=True))["environment"]
    assert "2 variables of the job" in found["plan"] and "MY_TOKEN|***|" in found["plan"]


def test_long_documents_are_cut_at_a_line(home: str) -> None:
    paths = record_run(home)
    write(paths.submission, "a line of the script\n" * 100_000)
    text = texts(facts_of(paths))["submission"]
    assert len(text) < 300_000 and text.rstrip().endswith("more)") and "a line of the script\n… (" in text


def test_files(home: str, monkeypatch: pytest.MonkeyPatch) -> None:
    paths = record_run(home, 1, 1)
    write(os.path.join(paths.code, "deep", "train.py"), "x" * 2048)
    write(os.path.join(paths.outputs, "model\n.bin"), "x" * 10)
    os.symlink("/etc/passwd", os.path.join(paths.outputs, "link"))
    text = texts(facts_of(paths))["files"]
    assert "outputs/link|link|" in text and "code/|3 files, 2 KiB|" in text and "outputs/model\n.bin|10 B|" in text
    monkeypatch.setattr(files, "_ROWS", 2)
    monkeypatch.setattr(files, "_ENTRIES", 4)
    text = texts(facts_of(paths))["files"]
    assert "more rows" in text and "There are more files than were counted." in text


def test_a_status_without_times(home: str) -> None:
    facts = facts_of(record_run(home), Status("QUEUED", message="waits for nodes"))
    assert "waits for nodes" in texts(facts)["run"]
