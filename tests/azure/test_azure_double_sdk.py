"""The double is judged by Azure's own client, unmodified: what it does with the service, it does here."""

from __future__ import annotations

import threading
from collections.abc import Callable
from pathlib import Path

import pytest
from azureml_double.double import Double, until
from sdk import Told

TRAIN = """
import os, sys
number, data, model = sys.argv[1:]
print("rank", os.environ["RANK"], "of", os.environ["WORLD_SIZE"], number, sorted(os.listdir(data)), flush=True)
open(os.path.join(model, "model%s.txt" % os.environ["RANK"]), "w").write("weights")
open("outputs/summary.txt", "w").write("kept")
"""
WAIT = """
import os, time
while not os.path.exists(%r):
    time.sleep(0.05)
"""
COMMAND = "python train.py ${{inputs.number}} ${{inputs.data}} ${{outputs.model}}"
ENVIRONMENT = "azureml://registries/azureml/environments/any/versions/1"


def job_of(code: Path | None, text: str, **more: str) -> str:
    """The words that make a command job."""
    fields = {"environment": repr(ENVIRONMENT), "compute": "'cpu-cluster'", "command": repr(text), **more}
    if code is not None:
        fields["code"] = repr(str(code))
    return "command(%s)" % ", ".join("%s=%s" % each for each in fields.items())


def allow_when_streamed(double: Double, allowed: Path, known: int) -> None:
    """Make a file once the client has asked how far a job is, after so many requests: of one that is over by then it
    streams nothing."""
    until(double.requests, lambda lines: any("/details" in line for line in lines[known:]), 60)
    allowed.touch()


def test_a_job_of_two_nodes_is_submitted_streamed_and_downloaded(
    double: Double, sdk: Callable[[str], Told], tmp_path: Path
) -> None:
    code, data, allowed = tmp_path / "code", tmp_path / "data", tmp_path / "allowed"
    (code / "sub").mkdir(parents=True)
    (code / "train.py").write_text(WAIT % str(allowed) + TRAIN)
    threading.Thread(target=allow_when_streamed, args=(double, allowed, len(double.requests())), daemon=True).start()
    (code / "sub" / "other.txt").write_text("x")
    data.mkdir()
    (data / "digits.csv").write_text("1,2\n")
    job = job_of(
        code,
        COMMAND,
        instance_count="2",
        distribution="{'type': 'PyTorch', 'process_count_per_instance': 1}",
        inputs="{'number': 3, 'data': Input(type='uri_folder', path='azureml:digits:1')}",
        outputs="{'model': Output(type='uri_folder')}",
        experiment_name="'digits'",
    )
    told = sdk(
        """
client.data.create_or_update(Data(name="digits", version="1", type="uri_folder", path=%r))
job = client.jobs.create_or_update(%s)
tell("name", job.name)
client.jobs.stream(job.name)
job = client.jobs.get(job.name)
tell("job", [job.status, job.experiment_name, job.resources.instance_count, job.compute])
tell("names", [each.name for each in client.jobs.list()])
client.jobs.download(job.name, download_path=folder, all=True)
"""
        % (str(data), job)
    )
    name = told.values["name"]
    assert told.values["job"] == ["Completed", "digits", 2, "cpu-cluster"]
    assert name in told.values["names"]
    assert "Streaming user_logs/std_log_process_0.txt" in told.output
    assert "rank 0 of 2 3 ['digits.csv']" in told.output
    results = tmp_path / "results"
    assert (results / "artifacts/user_logs/std_log_process_1.txt").read_text() == "rank 1 of 2 3 ['digits.csv']\n"
    assert (results / "artifacts/outputs/summary.txt").read_text() == "kept"
    assert [(results / "named-outputs/model" / each).read_text() for each in ("model0.txt", "model1.txt")] == [
        "weights",
        "weights",
    ]
    assert double.states(name) == ["NotStarted", "Queued", "Preparing", "Running", "Finalizing", "Completed"]


@pytest.mark.exhaustive
def test_a_running_job_is_cancelled(double: Double, sdk: Callable[[str], Told]) -> None:
    told = sdk(
        """
import time
job = client.jobs.create_or_update(%s)
while client.jobs.get(job.name).status != "Running":
    time.sleep(0.05)
client.jobs.begin_cancel(job.name).result()
tell("name", job.name)
tell("status", client.jobs.get(job.name).status)
"""
        % job_of(None, "trap 'echo told; exit 0' TERM; while :; do sleep 0.05; done")
    )
    assert told.values["status"] == "Canceled"
    assert double.states(told.values["name"])[-2:] == ["CancelRequested", "Canceled"]
    assert double.artifact(told.values["name"], "user_logs/std_log.txt").endswith(b"told\n")


@pytest.mark.exhaustive
def test_the_same_code_is_uploaded_once_and_a_failure_is_told_by_its_stream(
    double: Double, sdk: Callable[[str], Told], tmp_path: Path
) -> None:
    code = tmp_path / "code"
    code.mkdir()
    (code / "train.py").write_text("raise SystemExit('no GPU here')\n")
    before = len(double.requests())
    told = sdk(
        """
for number in range(2):
    job = client.jobs.create_or_update(%s)
    tell("name%%d" %% number, job.name)
    try:
        client.jobs.stream(job.name)
    except Exception as error:
        tell("error%%d" %% number, str(error))
"""
        % job_of(code, "python train.py")
    )
    assert "no GPU here" in told.values["error0"]
    assert "exited with status code 1" in told.values["error1"]
    uploads = [each for each in double.requests()[before:] if each.startswith("PUT") and "train.py 201" in each]
    assert len(uploads) == 1


@pytest.mark.exhaustive
def test_what_else_of_a_workspace_the_client_reads_and_changes(
    double: Double, sdk: Callable[[str], Told], tmp_path: Path
) -> None:
    large = tmp_path / "large.bin"
    large.write_bytes(bytes(range(256)) * 4096 * 70)
    double.submit("busy", "sleep 100", nodes=2)
    double.wait("busy", "Running")
    told = sdk(
        """
from azure.ai.ml.entities import Environment
compute = client.compute.get("cpu-cluster")
tell("compute", [compute.type, compute.size, compute.max_instances])
tell("sizes", {each.name: each.gpus for each in client.compute.list_sizes()})
# The entity has the service's names: its own current_job_name is always None in 1.35.2.
tell("nodes", [vars(each).get("runId") for each in client.compute.list_nodes("cpu-cluster")])
tell("computes", [each.name for each in client.compute.list()])
tell("datastores", [each.name for each in client.datastores.list()])
tell("workspace", client.workspaces.get().name)
tell("file", client.data.create_or_update(Data(name="large", type="uri_file", version="2", path=%r)).path)
environment = client.environments.create_or_update(Environment(name="mine", image="ubuntu:22.04"))
tell("environment", [environment.name, client.environments.get("mine", label="latest").version])
job = command(command="cmp ${{inputs.file}} %s && cat ${{inputs.file}} | wc -c", environment="mine@latest",
              compute="cpu-cluster", inputs={"file": Input(type="uri_file", path="azureml:large:2", mode="download")})
job = client.jobs.create_or_update(job)
client.jobs.stream(job.name)
client.jobs.update(job.name, display_name="renamed", tags={"a": "b"})
client.jobs.archive(job.name)
job = client.jobs.get(job.name)
tell("job", [job.status, job.display_name, job.tags])
tell("name", job.name)
tell("active", [each.name for each in client.jobs.list()])
"""
        % (str(large), large)
    )
    values = told.values
    assert values["sizes"]["Standard_NC24rs_v3"] == 4
    assert values["nodes"] == ["busy", "busy"]
    assert values["compute"] == ["amlcompute", "Standard_D2s_v3", 4]
    assert values["computes"] == ["cpu-cluster", "small"]
    assert values["datastores"] == ["workspaceblobstore", "workspaceartifactstore"]
    assert values["workspace"] == double.workspace
    assert values["file"].endswith("large.bin")
    assert values["environment"][0] == "mine"
    assert values["job"] == ["Completed", "renamed", {"a": "b"}]
    assert values["name"] not in values["active"]
    assert double.artifact(values["name"], "user_logs/std_log.txt") == b"%d\n" % large.stat().st_size


@pytest.mark.exhaustive
def test_more_jobs_than_a_page_are_listed_newest_first(double: Double, sdk: Callable[[str], Told]) -> None:
    names = ["paged-%02d" % number for number in range(12)]
    for name in names:
        double.submit(name, "true")
    told = sdk('tell("names", [each.name for each in client.jobs.list()])')
    assert [name for name in told.values["names"] if name.startswith("paged-")] == names[::-1]
    for name in names:
        double.wait(name)


@pytest.mark.exhaustive
def test_the_client_finds_nothing_where_nothing_is(double: Double, sdk: Callable[[str], Told]) -> None:
    told = sdk(
        """
from azure.core.exceptions import HttpResponseError
for name, ask in (("job", lambda: client.jobs.get("none")), ("compute", lambda: client.compute.get("none")),
                  ("large", lambda: client.jobs.create_or_update(%s))):
    try:
        ask()
    except HttpResponseError as error:
        tell(name, [error.status_code, error.message])
"""
        % job_of(None, "true", instance_count="5")
    )
    assert told.values["job"][0] == told.values["compute"][0] == 404
    assert told.values["large"][0] == 400
    assert "maximum 4" in told.values["large"][1]


@pytest.mark.exhaustive
def test_azures_identity_gets_a_token_for_a_secret(double: Double, sdk: Callable[[str], Told]) -> None:
    told = sdk(
        """
import os
from azure.ai.ml import MLClient
from azure.identity import ClientSecretCredential
credential = ClientSecretCredential("a-tenant", %r, %r, authority=os.environ["AZURE_AUTHORITY_HOST"],
                                    disable_instance_discovery=True)
client = MLClient(credential, *os.environ["DOUBLE_WORKSPACE"].split("/"))
tell("compute", client.compute.get("small").max_instances)
"""
        % (double.client_id, double.client_secret)
    )
    assert told.values["compute"] == 1
