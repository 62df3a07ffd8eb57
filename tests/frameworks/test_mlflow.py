"""Unmodified scripts that log with MLflow: one set of MLflow runs for all attempts, in the run directory, by rank 0."""

from __future__ import annotations

import os
import subprocess

import pytest
from driver import Cli
from training import PATIENCE, ROOT, needs

from worldsize.plan.run_paths import RunPaths
from worldsize.wings.metrics.mlflow_store import read_mlflow, read_parameters

OLD = pytest.param(".venv-mlflow-2", marks=[needs(".venv-mlflow-2"), pytest.mark.exhaustive])
NEW = pytest.param(".venv-mlflow", marks=[needs(".venv-mlflow")])
pytestmark = pytest.mark.timeout(300)

TRAIN = """
import os
import mlflow
attempt = int(os.environ["WORLDSIZE_ATTEMPT"])
mlflow.create_experiment("made")
mlflow.set_experiment("digits")
with mlflow.start_run(run_name="fit") as run:
    mlflow.log_param("lr", attempt)
    for step in range(3):
        mlflow.log_metric("train/loss", step, step=step + 3 * attempt)
    mlflow.log_text("weights", "model.txt")
    values = [metric.value for metric in mlflow.MlflowClient().get_metric_history(run.info.run_id, "train/loss")]
    print(run.info.run_id, values, flush=True)
with mlflow.start_run(run_name="test"):
    mlflow.log_metrics({"accuracy": 0.5})
    with mlflow.start_run(run_name="inner", nested=True):
        pass
"""


@pytest.fixture(params=[NEW, OLD])
def python(request: pytest.FixtureRequest) -> str:
    return os.path.join(ROOT, str(request.param), "bin", "python")


def logs_of(cli: Cli, python: str, script: str, world: str = "2x1") -> tuple[str, list[str]]:
    """The run's directory, and what each rank printed."""
    cli.write("train.py", script)
    result = cli("run", "-w", world, "--", python, "train.py", timeout=PATIENCE)
    assert result.code == 0, result
    run = cli.latest()
    ranks = range(cli.status(run)["ranks"])
    logs = [cli.read(run, "attempt-0", "logs", "rank-%05d.log" % rank) for rank in ranks]
    return cli.path(run), logs


def next_attempt(root: str, attempt: int, python: str, rank: int = 0) -> str:
    """What a rank of a later attempt prints: its program, in the environment that it would have."""
    os.makedirs(os.path.join(root, "attempt-%d" % attempt), mode=0o700, exist_ok=True)
    environ = {
        "PATH": os.environ["PATH"],
        "HOME": root,
        "PYTHONPATH": os.path.join(root, "inrank"),
        "MLFLOW_TRACKING_URI": "file://%s/mlruns" % root,
        "MLFLOW_ALLOW_FILE_STORE": "true",
        "WORLDSIZE_RUN_DIR": root,
        "WORLDSIZE_RUN_ID": os.path.basename(root),
        "WORLDSIZE_ATTEMPT": str(attempt),
        "WORLDSIZE_RANK": str(rank),
    }
    return subprocess.run(
        [python, os.path.join(root, "code", "train.py")],
        env=environ,
        cwd=root,
        check=True,
        capture_output=True,
        text=True,
    ).stdout


def test_all_attempts_are_one_run_of_rank_0(cli: Cli, python: str) -> None:
    root, logs = logs_of(cli, python, TRAIN)
    first, other = (log.splitlines()[-1].partition(" ") for log in logs)
    assert first[2] == "[0.0, 1.0, 2.0]"
    assert first[0] == other[0], "every rank knows the run by the same id"
    assert next_attempt(root, 1, python).strip() == first[0] + " [0.0, 1.0, 2.0, 0.0, 1.0, 2.0]"
    series = {each.place: each for each in read_mlflow(RunPaths(root))}
    assert sorted(series) == ["fit", "test"]
    assert [(point.step, point.attempt) for point in series["fit"].points] == [(step, step // 3) for step in range(6)]
    assert read_parameters(RunPaths(root)) == {"fit": {"lr": "1"}}
    assert sum("model.txt" in names for _, _, names in os.walk(os.path.join(root, "mlruns"))) == 1


@pytest.mark.exhaustive
def test_a_rank_that_is_told_rank_0s_run(cli: Cli, python: str) -> None:
    script = """
import os, time
import mlflow
if os.environ["RANK"] == "0":
    run = mlflow.MlflowClient().create_run("0", tags={"mlflow.parentRunId": "x"})
    with open("outputs/id.new", "w") as file:
        file.write(run.info.run_id)
    os.rename("outputs/id.new", "outputs/id")
while not os.path.exists("outputs/id"):
    time.sleep(0.02)
with mlflow.start_run(run_id=open("outputs/id").read()):
    mlflow.log_metric("rank", int(os.environ["RANK"]))
"""
    root, _ = logs_of(cli, python, script)
    (series,) = read_mlflow(RunPaths(root))
    assert [point.value for point in series.points] == [0.0]


@pytest.mark.exhaustive
def test_a_disk_that_refuses_is_told_once_and_the_script_goes_on(cli: Cli, python: str) -> None:
    script = """
import os, shutil
place = os.environ["WORLDSIZE_RUN_DIR"] + "/mlruns"
def refuse():
    shutil.rmtree(place, ignore_errors=True)
    open(place, "w").close()
if MOMENT == 0:
    refuse()
import mlflow
mlflow.set_experiment("digits")
if MOMENT == 1:
    refuse()
with mlflow.start_run() as run:
    if MOMENT == 2:
        refuse()
    for step in range(3):
        mlflow.log_metric("loss", step)
        mlflow.log_param("a%d" % step, 1)
        mlflow.set_tag("b", 1)
    mlflow.get_run(run.info.run_id)
with mlflow.start_run():
    mlflow.log_metric("loss", 1)
print("end")
"""
    for moment in range(3):
        _, logs = logs_of(cli, python, script.replace("MOMENT", str(moment)), "1x1")
        assert logs[0].endswith("end\n")
        assert logs[0].count("worldsize: MLflow: ") == 1, logs


@pytest.mark.exhaustive
def test_a_place_of_the_scripts_own_wins(cli: Cli, python: str) -> None:
    script = """
import os, mlflow
mlflow.set_tracking_uri("file://" + os.path.abspath("outputs/mine%s" % os.environ["RANK"]))
with mlflow.start_run() as run:
    mlflow.log_metric("loss", 1)
print(run.info.run_id)
"""
    root, logs = logs_of(cli, python, script)
    assert len(set(logs)) == 2
    assert not os.path.exists(os.path.join(root, "mlruns"))
    assert sorted(os.listdir(os.path.join(root, "outputs"))) == ["mine0", "mine1"]


@pytest.mark.exhaustive
def test_logging_in_mlflows_own_thread_and_children(cli: Cli, python: str) -> None:
    script = """
import os, sys, mlflow
if len(sys.argv) == 1:
    with mlflow.start_run(run_name="parent") as run:
        for step in range(50):
            mlflow.log_metrics({"loss": step}, step=step, **({"synchronous": False} if HAS_ASYNC else {}))
        if os.fork() == 0:
            mlflow.MlflowClient().log_metric(run.info.run_id, "worker", 1)
            mlflow.MlflowClient()._tracking_client.store._metrics.write()
            os._exit(0)
        os.wait()
        if os.system("%s train.py child" % sys.executable):
            raise SystemExit(3)
else:
    with mlflow.start_run(run_name="child"):
        mlflow.log_metric("loss", 1)
"""
    root, _ = logs_of(cli, python, script.replace("HAS_ASYNC", str("mlflow-2" not in python)), "1x1")
    series = {(each.place, each.name): each.points for each in read_mlflow(RunPaths(root))}
    assert {key: len(points) for key, points in series.items()} == {
        ("parent", "loss"): 50,
        ("parent", "worker"): 1,
        ("child", "loss"): 1,
    }
