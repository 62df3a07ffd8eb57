"""What MLflow loads in ranks, without MLflow: whose store a place is, names of runs, the thread that writes metrics."""

from __future__ import annotations

import errno
import multiprocessing
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from worldsize.plan.plan import Plan, node_major_layout
from worldsize.plan.rank_environment import mlflow_place as mlflow_uri
from worldsize.plan.rank_environment import rank_environment
from worldsize.plan.rank_variables import Host, RankContext, RendezvousResult
from worldsize.plan.run_paths import RunPaths
from worldsize.registry import source_file
from worldsize.service.submission.rank_packages import write_mlflow_plugin
from worldsize.snapshot.agent_bundle import ensure_agent_bundle
from worldsize.wings.metrics.agent.worldsize_mlflow import builders, metrics, place, store
from worldsize.wings.metrics.agent.worldsize_mlflow.metrics import MetricWriter


def plan_of(**fields: Any) -> Plan:
    return Plan("r", "t", "lab", 1.0, 0, node_major_layout(1, 1), ("true",), **{"environment": {}, **fields})


def environment_of(plan: Plan, inherited: dict[str, str], run_dir: str = "/runs/r") -> dict[str, str]:
    world = RendezvousResult("127.0.0.1", 1, (Host("a", 1),))
    return rank_environment(RankContext(plan, world, plan.nodes[0], plan.nodes[0].ranks[0], run_dir, "e"), inherited, 1)


def test_mlflow_is_told_its_place_unless_it_has_another() -> None:
    told = environment_of(plan_of(metrics=True), {})
    assert (told["MLFLOW_TRACKING_URI"], told["MLFLOW_ALLOW_FILE_STORE"]) == ("file:///runs/r/mlruns", "true")
    assert "MLFLOW_TRACKING_URI" not in environment_of(plan_of(), {})
    uri = {"MLFLOW_TRACKING_URI": "http://a"}
    for found in (
        environment_of(plan_of(metrics=True), uri),
        environment_of(plan_of(metrics=True, environment=uri), {}),
        environment_of(plan_of(metrics=True, activated=uri), {}),
    ):
        assert found["MLFLOW_TRACKING_URI"] == "http://a"
        assert "MLFLOW_ALLOW_FILE_STORE" not in found


def test_a_run_inside_a_run_has_its_own_place() -> None:
    outer = environment_of(plan_of(metrics=True), {}, "/runs/outer")
    assert environment_of(plan_of(metrics=True), outer)["MLFLOW_TRACKING_URI"] == "file:///runs/r/mlruns"
    outer["MLFLOW_TRACKING_URI"] = "file:///mine"
    assert environment_of(plan_of(metrics=True), outer)["MLFLOW_TRACKING_URI"] == "file:///mine"


def test_a_place_is_quoted_as_a_uri() -> None:
    from urllib.parse import unquote

    path = "/a b/%41#?;é\udcff/~x.y_z-1"
    uri = mlflow_uri(path)
    assert uri == "file:///a%20b/%2541%23%3F%3B%C3%A9%FF/~x.y_z-1/mlruns"
    assert unquote(uri[7:], errors="surrogateescape") == path + "/mlruns"


def test_the_plugin_is_what_importlib_finds(tmp_path: Path) -> None:
    from importlib.metadata import distributions

    paths = RunPaths(str(tmp_path))
    for plan in (plan_of(), plan_of(metrics=True, environment={"MLFLOW_TRACKING_URI": "http://a"})):
        write_mlflow_plugin(plan, paths, str(tmp_path))
        assert not os.path.exists(paths.inrank)
    write_mlflow_plugin(plan_of(metrics=True), paths, str(tmp_path))
    (found,) = distributions(path=[paths.inrank])
    assert found.metadata["Name"] == "worldsize-mlflow"
    points = {point.group: point for point in found.entry_points}
    assert sorted(points) == ["mlflow.artifact_repository", "mlflow.model_registry_store", "mlflow.tracking_store"]
    for point in points.values():
        module, _, function = point.value.partition(":")
        assert (point.name, hasattr(builders, function)) == ("file", True)
        assert module == "worldsize_mlflow.builders"


@pytest.mark.heavy
def test_a_ranks_python_finds_the_modules_in_agent_pyz(tmp_path: Path) -> None:
    hook = Path(source_file("inrank", "sitecustomize.py"))
    (tmp_path / "inrank").mkdir()
    (tmp_path / "inrank" / hook.name).write_text(hook.read_text())
    os.link(ensure_agent_bundle(str(tmp_path)), tmp_path / "agent.pyz")
    script = "import sys, worldsize_mlflow.builders as b; print(b.__file__, 'worldsize' in sys.modules)"
    environ = {"PYTHONPATH": str(tmp_path / "inrank"), "MLFLOW_TRACKING_URI": mlflow_uri(str(tmp_path))}
    found = subprocess.run([sys.executable, "-c", script], env=environ, stdout=subprocess.PIPE, check=True, text=True)
    folder = "agent.pyz/worldsize/wings/metrics/agent/worldsize_mlflow/"
    assert found.stdout.split() == [str(tmp_path / folder / "builders.pyc"), "False"]


@pytest.mark.parametrize(
    ("environ", "is_first"),
    [
        ({}, True),
        ({"WORLDSIZE_RANK": "0", "RANK": "0"}, True),
        ({"WORLDSIZE_RANK": "1"}, False),
        ({"WORLDSIZE_RANK": "0", "RANK": "3"}, False),  # torchrun inside a rank
        ({"WORLDSIZE_RANK": "1", "RANK": "0"}, False),
        ({"SLURM_PROCID": "2"}, False),
        ({"WORLDSIZE_RANK": ""}, True),
    ],
)
def test_which_rank_writes(environ: dict[str, str], is_first: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in place._RANKS:
        monkeypatch.delenv(name, raising=False)
    for name, value in environ.items():
        monkeypatch.setenv(name, value)
    assert place.is_first_rank() is is_first


def test_only_the_runs_own_place_is_its_store(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("WORLDSIZE_RUN_DIR", "/runs/a b")
    uris = ["file:///runs/a%20b/mlruns", "file:///runs/a%20b/mlruns/", "file:///runs/x/mlruns", "./mlruns", "/mlruns"]
    assert [builders._is_of_run(uri) for uri in uris] == [True, True, False, False, False]
    monkeypatch.delenv("WORLDSIZE_RUN_DIR")
    assert not any(builders._is_of_run(uri) for uri in [*uris, "", "file://"])


def test_a_name_is_taken_once_in_an_attempt(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("WORLDSIZE_RUN_DIR", str(tmp_path))
    monkeypatch.delenv("TORCHELASTIC_RESTART_COUNT", raising=False)
    for attempt in "01":
        monkeypatch.setenv("WORLDSIZE_ATTEMPT", attempt)
        (tmp_path / ("attempt-" + attempt)).mkdir(mode=0o700)
        assert [place.claim(run_id) for run_id in "aab"] == [True, False, True]
    monkeypatch.setenv("TORCHELASTIC_RESTART_COUNT", "2")
    assert place.claim("a"), "torchrun has started the ranks again"
    assert float((tmp_path / "attempt-1/metrics/mlflow-a-0").read_text()) > 1e9
    assert (tmp_path / "attempt-1/metrics").stat().st_mode & 0o777 == 0o700
    monkeypatch.setenv("WORLDSIZE_ATTEMPT", "7")
    assert place.claim("a"), "a disk that refuses has it taken"


@pytest.fixture
def failures() -> list[OSError]:
    return []


@pytest.fixture
def writer(failures: list[OSError], monkeypatch: pytest.MonkeyPatch) -> MetricWriter:
    monkeypatch.setattr(metrics, "INTERVAL", 3600)
    return MetricWriter(False, failures.append)


def test_metrics_are_appended_at_the_end_and_when_they_are_read(writer: MetricWriter, tmp_path: Path) -> None:
    loss, rate = str(tmp_path / "train" / "loss"), str(tmp_path / "rate")
    writer.add(loss, "1\n")
    writer.add(rate, "2\n")
    writer.add(loss, "3\n")
    writer.write()
    assert [Path(path).read_text() for path in (loss, rate)] == ["1\n3\n", "2\n"]
    writer.add(loss, "4\n")
    writer.close()
    writer.add(loss, "5\n")
    writer.close()
    assert Path(loss).read_text() == "1\n3\n4\n5\n"


def test_a_private_writer_keeps_the_newest_and_has_no_thread(writer: MetricWriter, tmp_path: Path) -> None:
    writer.is_private = True
    for line in ("1\n", "2\n"):
        writer.add(str(tmp_path / "loss"), line)
    assert (os.listdir(tmp_path), writer._thread) == ([], None)
    writer.write()
    assert (tmp_path / "loss").read_text() == "2\n"


def test_a_disk_that_refuses_is_told_and_costs_no_exception(
    writer: MetricWriter, failures: list[OSError], tmp_path: Path
) -> None:
    (tmp_path / "file").write_text("")
    writer.add(str(tmp_path / "file" / "loss"), "1\n")
    writer.close()
    assert [error.errno for error in failures] == [errno.EEXIST]


def test_a_full_disk_leaves_no_empty_file_and_no_cut_line(
    writer: MetricWriter, failures: list[OSError], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write, room = os.write, [9]

    def full(file: int, data: bytes) -> int:
        if not room[0]:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        count = write(file, data[: room[0]])
        room[0] -= count
        return count

    monkeypatch.setattr(os, "write", full)
    for path, line in (("a", "1 1 1\n"), ("b", "2 2 2\n"), ("a", "3 3 3\n")):
        writer.add(str(tmp_path / path), line)
        writer.write()
    assert [(tmp_path / "a").read_text(), os.listdir(tmp_path)] == ["1 1 1\n", ["a"]]
    assert {error.errno for error in failures} == {errno.ENOSPC}
    writer.close()


def test_a_forked_process_writes_nothing_of_its_parents(writer: MetricWriter, tmp_path: Path) -> None:
    writer.add(str(tmp_path / "loss"), "1\n")
    child = os.fork()
    if child == 0:
        writer.write()
        os._exit(len(os.listdir(tmp_path)))
    assert os.waitpid(child, 0)[1] == 0
    writer.close()
    assert (tmp_path / "loss").read_text() == "1\n"


def test_the_next_id_is_one_threads_alone() -> None:
    run_id = "ab" * 16
    store._ids.next = run_id
    assert [store._ids.uuid4().hex == run_id for _ in range(2)] == [True, False]
    assert store._ids.UUID is __import__("uuid").UUID


def test_modules_for_ranks_import_nothing_of_mlflow() -> None:
    assert not any(name.partition(".")[0] == "mlflow" for name in sys.modules)


def test_a_worker_that_multiprocessing_forks_writes_its_own(writer: MetricWriter, tmp_path: Path) -> None:
    """Found by review: such a worker ends without what `atexit` has, and its last second was lost."""
    context = multiprocessing.get_context("fork")
    worker = context.Process(target=writer.add, args=(str(tmp_path / "loss"), "1\n"))
    worker.start()
    worker.join()
    assert (worker.exitcode, (tmp_path / "loss").read_text()) == (0, "1\n")
