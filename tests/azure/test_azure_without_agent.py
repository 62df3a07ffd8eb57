"""Runs in a workspace without worldsize's agent: the service starts the ranks, and its word decides."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from pathlib import Path

import pytest
from azure_workspace import require_no_loss_by_killed_clients
from azureml_double.double import Double
from azureml_double.fixtures import compute_table, double_target

from worldsize_conformance.driver import wait_for
from worldsize_conformance.fixtures import make_place
from worldsize_conformance.place import Place

TRAIN = "import os\nprint('rank', os.environ['RANK'], 'of', os.environ['WORLD_SIZE'], flush=True)\n"


@pytest.fixture
def cloud(azureml: Double, tmp_path: Path) -> Iterator[Place]:
    yield from make_place(str(tmp_path), double_target(azureml, compute_table(azureml, "cloud") + "agent = false\n"))


def test_a_run_of_two_nodes(cloud: Place, azureml: Double) -> None:
    """Nothing of worldsize's goes there; logs and outputs of all ranks come back."""
    cloud.write("src/train.py", TRAIN)
    cloud.write("data/a.txt", "content of a\n")
    cloud.job(
        "python train.py; cat ${{inputs.data}}/a.txt; echo $GREETING $OMP_NUM_THREADS; "
        "echo w > ${{outputs.model}}/w-$RANK",
        "2x2",
        code="src",
        inputs={"data": {"type": "uri_folder", "path": "data"}},
        outputs={"model": {"type": "uri_folder"}},
        setup=["export GREETING=hello"],
        threads=3,
        grace=30,
    )
    before = len(azureml.requests())
    result = cloud.ok("run", "job.yml")
    assert {"×4: content of a", "×4: hello 3"} <= {*result.lines}, result
    assert {"%d:%d: rank %d of 4" % (rank // 2, rank, rank) for rank in range(4)} <= {*result.lines}
    assert "job.yml:1: grace: is left out: Azure ends processes in its own way" in result.err
    assert not [line for line in azureml.requests()[before:] if "worldsize/runs" in line]
    run = cloud.latest()
    properties = azureml.job(run)
    assert properties["distribution"] == {"distributionType": "PyTorch", "processCountPerInstance": 2}
    assert properties["command"].endswith("/w-$RANK") and set(properties["inputs"]) == {"data"}
    assert not os.path.exists(cloud.path(run, "relay.key"))
    cloud.fetch_outputs(run)
    assert sorted(os.listdir(cloud.path(run, "outputs", "model"))) == ["w-%d" % rank for rank in range(4)]
    assert cloud.ok("logs", "--rank", "3", "--raw").lines == ["rank 3 of 4", "content of a", "hello 3"]
    status = cloud.status()
    assert (status["state"], status["exit_code"]) == ("SUCCEEDED", 0) and status["page"].startswith("https://")
    assert status["ended"] >= status["started"] > 0
    assert cloud.json("list")[0]["state"] == "SUCCEEDED"
    assert cloud.ok("rerun", run).code == 0


def test_a_rank_that_fails(cloud: Place, azureml: Double) -> None:
    """Its exit code is the run's, as the service tells it; which rank it was, nobody says."""
    cloud.job("echo before; if [ $RANK = 2 ]; then exit 3; fi", "2x2")
    result = cloud("run", "job.yml")
    assert result.code == 3 and "×4: before" in result.lines, result
    assert "exited with status code 3" in result.err and "Traceback" not in result.err
    status = cloud.status()
    assert (status["state"], status["reason"], status["exit_code"]) == ("FAILED", "EXIT_CODE", 3)
    assert (status["failure"]["rank"], status["failure"]["node_rank"]) == (None, None)
    assert cloud("wait", cloud.latest()).code == 3


def test_cancel(cloud: Place, azureml: Double) -> None:
    """The first lines are there before the end; it is STOPPING until the service says that it has ended."""
    cloud.job("echo here; sleep 120", "2x1")
    run = cloud.submit("job.yml")
    following = cloud.start("logs", "-f", run)
    assert following.stdout is not None and following.stdout.readline() == b"\xc3\x972: here\n"
    assert cloud.status(run)["state"] == "RUNNING" and azureml.job(run)["status"] == "Running"
    cloud.ok("cancel", run)
    status = cloud.wait_for_end(run)
    assert (status["state"], status["exit_code"]) == ("CANCELLED", 130)
    assert following.wait(60) == 130
    following.communicate()
    assert azureml.job(run)["status"] == "Canceled" and cloud.ok("logs", run).lines == ["×2: here"]


def test_a_dry_run_shows_the_exported_job(cloud: Place, azureml: Double) -> None:
    cloud.job("train ${{inputs.lr}}", "2x4", inputs={"lr": 0.1}, threads=2, distribution={"type": "horovod"})
    before = len(azureml.requests())
    lines = cloud.ok("run", "job.yml", "--dry-run", AZURE_CLIENT_SECRET="wrong").lines
    start = next(number for number, line in enumerate(lines) if line.startswith("PUT https://"))
    body = json.loads("\n".join(lines[start + 1 : lines.index("}", start) + 1]))["properties"]
    assert body["command"] == "train ${{inputs.lr}}" and set(body["inputs"]) == {"lr"}
    assert body["distribution"] == {"distributionType": "Mpi", "processCountPerInstance": 1}
    assert body["environmentVariables"] == {"OMP_NUM_THREADS": "2"} and body["resources"]["instanceCount"] == 2
    assert len(azureml.requests()) == before


def test_what_an_export_refuses_is_refused_before_anything_is_sent(cloud: Place, azureml: Double) -> None:
    before = len(azureml.requests())
    cloud.write("train.py", TRAIN)
    cloud.job("python train.py", code=".", additional_includes=["train.py"], data_parallel="split", modules=["gcc"])
    result = cloud("run", "job.yml")
    assert result.code == 2 and len(azureml.requests()) == before and not cloud.json("list")
    for words in ("additional_includes: a job of Azure has one directory", "data_parallel: only", "images have no mod"):
        assert words in result.err, result
    result = cloud("check", "--compute", "cloud")
    assert result.code == 2 and "need worldsize's agent" in result.err, result
    assert len(azureml.requests()) == before and not cloud.json("list")


@pytest.mark.exhaustive
@pytest.mark.parametrize(
    ("distribution", "command", "lines"),
    [
        (
            {"type": "mpi", "process_count_per_instance": 2},
            "echo $OMPI_COMM_WORLD_RANK/$OMPI_COMM_WORLD_SIZE",
            ["0:0: 0/4", "0:1: 1/4", "1:2: 2/4", "1:3: 3/4"],
        ),
        (
            {"type": "tensorflow", "worker_count": 2, "parameter_server_count": 1},
            "echo $TF_CONFIG | grep -o '\"task\".*}' | tr -d ' \"{}' | cut -d, -f1,2",
            ["0:0: task:type:worker,index:0", "0:1: task:type:ps,index:0", "1:2: task:type:worker,index:1"],
        ),
        ({"type": "jax"}, "echo $OMPI_COMM_WORLD_RANK", ["0:0: 0", "1:1: 1"]),
        (None, "echo $AZUREML_CR_NODE_RANK", ["0:0: 0", "1:1: 1"]),
    ],
)
def test_distributions_of_the_services_own(
    cloud: Place, distribution: dict[str, object], command: str, lines: list[str]
) -> None:
    cloud.job(command, "2x1", distribution=distribution)
    cloud.ok("run", "job.yml")
    assert cloud.ok("logs", "--fold", "off").lines == lines


@pytest.mark.exhaustive
def test_a_client_that_is_killed_goes_on_without_loss(cloud: Place) -> None:
    require_no_loss_by_killed_clients(cloud, "1x2")


@pytest.mark.exhaustive
def test_the_time_limit_is_told_apart_from_a_cancel(cloud: Place) -> None:
    cloud.job("sleep 120", limits={"timeout": 2})
    result = cloud("run", "job.yml")
    assert result.code == 124 and "it reached its time limit, 2 s" in result.err, result
    assert (cloud.status()["state"], cloud.status()["reason"]) == ("FAILED", "TIME_LIMIT")


@pytest.mark.exhaustive
def test_a_cancel_by_somebody_else(cloud: Place, azureml: Double) -> None:
    cloud.job(cloud.touch("up-$RANK") + "; sleep 120", limits={"timeout": 100})
    run = cloud.submit("job.yml")
    wait_for(lambda: cloud.has_outputs(run, "up-0"), 60)
    azureml.ask("POST", "/jobs/%s/cancel" % run)
    assert cloud.wait_for_end(run)["state"] == "CANCELLED"


@pytest.mark.exhaustive
def test_a_node_that_is_lost_is_no_success(cloud: Place, azureml: Double) -> None:
    cloud.job(cloud.touch("up-$RANK") + "; sleep 20", "2x1")
    run = cloud.submit("job.yml")
    wait_for(lambda: cloud.has_outputs(run, "up-0", "up-1"), 60)
    azureml.kill_node(run, 1)
    status = cloud.wait_for_end(run)
    assert (status["state"], status["reason"]) == ("FAILED", "NODE_FAILURE"), status
    assert "Node 1 of the job was lost" in status["message"]


@pytest.mark.exhaustive
def test_a_log_that_comes_later_than_the_end_is_waited_for(cloud: Place, azureml: Double) -> None:
    azureml.fault("/user_logs/", method="GET", status=416, times=2)
    azureml.fault("/user_logs/", method="GET", status=404, times=2)
    cloud.job("echo hello")
    assert "0:0: hello" in cloud.ok("run", "job.yml").lines


@pytest.mark.exhaustive
def test_several_runs_at_once(cloud: Place) -> None:
    cloud.job("echo number ${{inputs.n}}", inputs={"n": 0}, matrix={"n": [1, 2]})
    result = cloud("run", "job.yml")
    assert result.code == 0, result
    assert {row["state"] for row in cloud.json("list")} == {"SUCCEEDED"}


@pytest.mark.exhaustive
def test_each_run_of_several_has_its_own_inputs(cloud: Place) -> None:
    cloud.job("echo lr=${{inputs.lr}}", matrix={"lr": [1, 2]}, inputs={"lr": 0})
    cloud.ok("run", "job.yml")
    array = cloud.latest()
    for element in (0, 1):
        assert cloud.ok("logs", "%s_%d" % (array, element), "--raw", "--rank", "0").lines == ["lr=%d" % (element + 1)]


@pytest.mark.exhaustive
def test_a_log_that_was_replaced_by_a_shorter_one_is_read_anew(cloud: Place, azureml: Double) -> None:
    cloud.job("echo a long line of a first start; sleep 120")
    run = cloud.submit("job.yml")
    wait_for(lambda: cloud.ok("logs", run, "--raw").lines == ["a long line of a first start"], 60)
    with open(azureml.blob("azureml", "ExperimentRun/dcid.%s/user_logs/std_log.txt" % run), "wb") as log:
        log.write(b"again\n")
    assert cloud.ok("logs", run, "--raw").lines == ["again"]
    cloud.ok("cancel", run)
    assert cloud.wait_for_end(run)["state"] == "CANCELLED"


@pytest.mark.exhaustive
def test_a_job_that_the_service_knows_no_more_is_no_success(cloud: Place, azureml: Double) -> None:
    cloud.job("true")
    run = cloud.submit("job.yml")
    azureml.wait(run)
    azureml.ask("DELETE", "/jobs/%s" % run)
    wait_for(lambda: "knows job" in str(cloud.status(run)), 60)
    assert cloud.status(run)["state"] != "SUCCEEDED"
