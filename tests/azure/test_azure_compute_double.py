"""Runs in a workspace, or on the double that stands for one: what clients see; and on the double what becomes of
faults."""

from __future__ import annotations

import json
import os

import pytest
from azure_workspace import require_no_loss_by_killed_clients
from azureml_double.double import Double

from worldsize_conformance.driver import unfolded, wait_for
from worldsize_conformance.place import Place

TRAIN = "import os\nprint('rank', os.environ['RANK'], 'of', os.environ['WORLD_SIZE'], flush=True)\n"


def test_a_run_of_two_nodes(cloud: Place) -> None:
    """Code, an input and an output."""
    cloud.write("src/train.py", TRAIN)
    cloud.write("data/a.txt", "content of a\n")
    cloud.write("data/a.tmp", "no content\n")
    cloud.write("data/.amlignore", "*.tmp\n")
    cloud.job(
        "python train.py; cat ${{inputs.data}}/a.*; echo w > ${{outputs.model}}/w-$RANK; echo o > outputs/o-$RANK",
        "2x2",
        code="src",
        inputs={"data": {"type": "uri_folder", "path": "data"}},
        outputs={"model": {"type": "uri_folder"}},
    )
    result = cloud.ok("run", "job.yml")
    assert unfolded(result.lines).count("content of a") == 4 and "no content" not in result.out
    assert result.err.count("data: left out by its .amlignore: 1 of 3 files") == 1
    assert {"%d:%d: rank %d of 4" % (rank // 2, rank, rank) for rank in range(4)} <= {*result.lines}
    run = cloud.latest()
    assert "outputs: worldsize fetch %s fetches them" % run in result.err + result.out
    wanted = {"outputs/%s-%d" % (name, rank) for name in ("o", "model/w") for rank in range(4)}
    assert wanted <= {file["path"] for file in cloud.json("outputs")}
    assert not os.listdir(cloud.ok("path", run, "model").out.strip())
    fetched = cloud.ok("fetch", run, "model", "--to", os.path.join(cloud.root, "copy")).lines
    assert sorted(map(os.path.basename, fetched)) == ["w-%d" % rank for rank in range(4)]


def test_names_are_told_and_code_is_uploaded_once(cloud: Place, azureml: Double) -> None:
    """The second run uploads nothing but its own files."""
    cloud.write("src/train.py", TRAIN)
    cloud.job("python train.py", code="src", display_name="two nodes", tags={"team": "vision"})
    run = cloud.run("job.yml")
    properties = azureml.job(run)
    assert (properties["displayName"], properties["tags"]) == ("two nodes", {"team": "vision"})
    before = len(azureml.requests())
    cloud.ok("rerun", run)
    sent = [line for line in azureml.requests()[before:] if line.startswith("PUT ") and "/worldsize/" in line]
    assert sent and all("/worldsize/runs/" in line for line in sent)
    assert not [line for line in azureml.requests()[before:] if line.startswith("PUT ") and "/codes/" in line]


def test_the_first_failing_rank_ends_the_job_and_is_named(cloud: Place) -> None:
    cloud.job("if [ $RANK = 2 ]; then exit 7; fi; sleep 120", "2x2")
    result = cloud("run", "job.yml")
    assert result.code == 7, result
    status = cloud.status()
    assert (status["failure"]["rank"], status["reason"]) == (2, "EXIT_CODE")
    assert status["page"].startswith("https://")
    assert cloud.compute().observe([cloud.handle(cloud.latest())])[0].phase == "ended"


def test_a_dry_run_shows_the_request_without_an_account(cloud: Place) -> None:
    cloud.job("true", "2x1", environment_variables={"EPOCHS": "3"})
    lines = cloud.ok("run", "job.yml", "--dry-run", AZURE_CLIENT_SECRET="wrong").lines
    start = next(number for number, line in enumerate(lines) if line.startswith("PUT https://"))
    body = json.loads("\n".join(lines[start + 1 : lines.index("}", start) + 1]))["properties"]
    assert (body["resources"]["instanceCount"], body["environmentVariables"]) == (2, {"EPOCHS": "3"})
    assert body["distribution"] == {"distributionType": "PyTorch", "processCountPerInstance": 1}
    assert not cloud.json("list")


def test_a_job_that_cannot_be_there_is_refused(cloud: Place) -> None:
    cloud.job(
        "true",
        modules=["gcc"],
        secrets=["HF_TOKEN"],
        outputs={"model": {"type": "uri_folder", "path": "/data/model"}},
    )
    result = cloud("run", "job.yml", HF_TOKEN="hf_secret")
    assert result.code == 2, result
    for words in ("images have no modules", "key vault", "/data/model is a directory on this machine"):
        assert words in result.err, result
    assert "hf_secret" not in result.err + result.out and not cloud.json("list")


def test_neither_a_dry_run_nor_what_is_refused_asks_the_service(cloud: Place, azureml: Double) -> None:
    before = len(azureml.requests())
    cloud.job("true", modules=["gcc"])
    assert cloud("run", "job.yml").code == 2
    cloud.job("true")
    cloud.ok("run", "job.yml", "--dry-run")
    assert len(azureml.requests()) == before


@pytest.mark.exhaustive
def test_whoever_is_not_signed_in_leaves_nothing(cloud: Place, azureml: Double) -> None:
    cloud.job("true")
    result = cloud("run", "job.yml", AZURE_CLIENT_SECRET="wrong")
    assert result.code != 0 and "AADSTS7000215" in result.err and "az login" in result.err
    assert not cloud.json("list")


@pytest.mark.exhaustive
def test_faults_on_the_way_are_survived(cloud: Place, azureml: Double) -> None:
    """A busy service, a token that ends in the middle, errors, lost answers."""
    azureml.fault("/jobs/", method="PUT", status=429, headers={"Retry-After": "1"})
    azureml.fault("/jobs/", method="PUT", cut=-1)
    azureml.fault("/jobs/", method="GET", status=401)
    azureml.fault("/details", status=503, times=2)
    azureml.fault("/jobs/", method="GET", status=500, times=2)
    cloud.job("for i in 1 2 3; do echo $i; sleep 1; done", "2x1")
    cloud.ok("run", "job.yml")
    for rank in (0, 1):
        assert cloud.ok("logs", cloud.latest(), "--rank", str(rank), "--raw").lines == ["1", "2", "3"]
    assert len([each for each in azureml.ask("GET", "/jobs")["value"] if each["name"] == cloud.latest()]) == 1


@pytest.mark.exhaustive
def test_a_client_that_is_killed_goes_on_without_loss(cloud: Place) -> None:
    require_no_loss_by_killed_clients(cloud, "2x1")


@pytest.mark.exhaustive
def test_what_mlflow_logs_into_files_comes_with_the_outputs(cloud: Place) -> None:
    """In an image that does not log into the workspace."""
    place = '"${MLFLOW_TRACKING_URI#file://}/0/%s"' % ("a0" * 16)
    lines = ["cd %s" % place, "touch meta.yaml", "echo '1764224000000 0.5 0' > metrics/loss"]
    cloud.job(" && ".join(["mkdir -p %s/metrics" % place, *lines]))
    cloud.ok("run", "job.yml")
    assert "loss" not in cloud.ok("metrics", cloud.latest()).out
    cloud.fetch_outputs(cloud.latest())
    assert "loss" in cloud.ok("metrics", cloud.latest()).out


@pytest.mark.exhaustive
def test_what_a_run_has_left_is_the_next_ones_input(cloud: Place, azureml: Double) -> None:
    """In the workspace without a way over this machine; elsewhere once it has been fetched."""
    cloud.job(
        "mkdir ${{outputs.model}}/a; echo w > ${{outputs.model}}/a/w; echo f > ${{outputs.file}}; echo o > outputs/o",
        outputs={"model": {"type": "uri_folder"}, "file": {"type": "uri_file"}},
    )
    cloud.ok("run", "job.yml")
    run = cloud.latest()
    paths = {place: cloud.ok("path", run, place).out.strip() for place in ("outputs", "model", "file")}
    file, paths["below"] = paths.pop("file"), os.path.join(paths["model"], "a")
    inputs = {name: {"type": "uri_folder", "path": path} for name, path in paths.items()}
    inputs["file"] = {"type": "uri_file", "path": file}
    command = "cat ${{inputs.model}}/a/w ${{inputs.below}}/w ${{inputs.outputs}}/o ${{inputs.file}}"
    cloud.job(command, inputs=inputs)
    refused = cloud("run", "job.yml", "--compute", "local")
    assert refused.code == 2 and refused.err.count("worldsize fetch %s" % run) == 4, refused
    before = len(azureml.requests())
    assert cloud.ok("run", "job.yml").lines[-4:].count("0:0: w") == 2
    sent = [line for line in azureml.requests()[before:] if line.startswith("PUT ") and "/worldsize/" in line]
    assert sent and all("/worldsize/runs/" in line for line in sent)
    missing = {"data": {"type": "uri_folder", "path": os.path.join(paths["outputs"], "none")}}
    cloud.job("true", inputs=missing)
    refused = cloud("run", "job.yml")
    assert refused.code != 0 and "run %s has no output (yet)" % run in refused.err
    cloud.fetch_outputs(run)
    cloud.job(command, inputs=inputs)
    assert [line[-1:] for line in cloud.ok("run", "job.yml", "--compute", "local").lines].count("w") == 2


@pytest.mark.exhaustive
def test_a_node_that_is_lost_ends_the_run(cloud: Place, azureml: Double) -> None:
    cloud.job(cloud.touch("up-$RANK") + "; sleep 120", "2x1")
    run = cloud.submit("job.yml")
    wait_for(lambda: cloud.has_outputs(run, "up-0", "up-1"), 60)
    azureml.kill_node(run, 1)
    status = cloud.wait_for_end(run)
    assert (status["state"], status["reason"]) == ("FAILED", "NODE_FAILURE"), status


@pytest.mark.exhaustive
def test_a_log_that_comes_later_than_the_end_is_waited_for(cloud: Place, azureml: Double) -> None:
    azureml.fault("/user_logs/", method="GET", status=416, times=2)
    azureml.fault("/user_logs/", method="GET", status=404, times=2)
    cloud.job("echo hello")
    assert "0:0: hello" in cloud.ok("run", "job.yml").lines
