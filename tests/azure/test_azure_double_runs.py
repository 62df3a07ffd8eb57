"""What ranks find on the double's nodes, and how jobs end."""

from __future__ import annotations

import json
import os
from typing import Any

import httpx
import pytest
from azureml_double.double import Double, names_resolved, until

SHOW = "env | grep -E '^(RANK|WORLD|LOCAL|NODE_RANK|MASTER|TF_CONFIG|OMPI|AZ_BATCH_|AZUREML_)' | sort"


def variables(double: Double, job: str, log: str) -> dict[str, str]:
    lines = double.artifact(job, "user_logs/" + log).decode().splitlines()
    return dict(line.split("=", 1) for line in lines)


def run(double: Double, name: str, command: str, **properties: Any) -> dict[str, Any]:
    double.submit(name, command, **properties)
    return double.wait(name)


def test_ranks_of_pytorch_know_who_they_are(double: Double) -> None:
    distribution = {"distributionType": "PyTorch", "processCountPerInstance": 2}
    found = run(double, "pytorch", SHOW, nodes=2, distribution=distribution, environmentVariables={"AZUREML_MY": "1"})
    assert found["status"] == "Completed"
    last = variables(double, "pytorch", "std_log_process_3.txt")
    assert last["MASTER_ADDR"].startswith("127.77.")
    expected = {"RANK": "3", "WORLD_SIZE": "4", "LOCAL_RANK": "1", "LOCAL_WORLD_SIZE": "2", "NODE_RANK": "1"}
    expected |= {"AZUREML_RUN_ID": "pytorch", "AZUREML_NODE_COUNT": "2", "AZUREML_CR_NODE_RANK": "1"}
    expected |= {"AZUREML_PROCESS_NAME": "rank_3", "AZUREML_MY": "1"}
    assert expected.items() <= last.items()


@pytest.mark.exhaustive
def test_ranks_of_mpi_know_who_they_are(double: Double) -> None:
    run(double, "mpi", SHOW, nodes=2, distribution={"distributionType": "Mpi", "processCountPerInstance": 2})
    found = variables(double, "mpi", "std_log_process_1.txt")
    expected = {"RANK": "1", "SIZE": "4", "LOCAL_RANK": "1", "LOCAL_SIZE": "2", "NODE_RANK": "0"}
    assert {"OMPI_COMM_WORLD_" + name: value for name, value in expected.items()}.items() <= found.items()
    assert found["AZ_BATCH_MASTER_NODE"].partition(":")[0] == found["AZ_BATCH_HOST_LIST"].split(",")[0]


@pytest.mark.exhaustive
def test_tasks_of_tensorflow_know_their_cluster(double: Double) -> None:
    distribution = {"distributionType": "TensorFlow", "workerCount": 2, "parameterServerCount": 1}
    run(double, "tensorflow", SHOW, nodes=2, distribution=distribution)
    worker = json.loads(variables(double, "tensorflow", "std_log_process_1.txt")["TF_CONFIG"])
    server = json.loads(variables(double, "tensorflow", "std_log_process_0_ps.txt")["TF_CONFIG"])
    assert worker["cluster"] == server["cluster"]
    places = [place for task in ("worker", "ps") for place in worker["cluster"][task]]
    assert len(places) == len(set(places)) == 3
    assert worker["task"] == {"type": "worker", "index": 1}
    assert server["task"] == {"type": "ps", "index": 0}
    run(double, "no-servers", SHOW, nodes=2, distribution={"distributionType": "TensorFlow", "workerCount": 2})
    assert "ps" not in json.loads(variables(double, "no-servers", "std_log_process_0.txt")["TF_CONFIG"])["cluster"]


@pytest.mark.exhaustive
def test_one_process_without_a_distribution_has_no_rank(double: Double) -> None:
    run(double, "plain", SHOW)
    assert "RANK" not in variables(double, "plain", "std_log.txt")


@pytest.mark.exhaustive
def test_a_failed_rank_is_told_with_the_end_of_its_log(double: Double) -> None:
    distribution = {"distributionType": "PyTorch", "processCountPerInstance": 2}
    found = run(
        double, "failed", 'echo here; test "$RANK" != 1 || { echo bad >&2; exit 3; }', distribution=distribution
    )
    assert found["status"] == "Failed"
    message = double.details("failed")["error"]["error"]["message"]
    assert "status code 3" in message and "std_log_process_1.txt" in message and message.endswith("bad\n")


GO_ON = """
if test "$RANK" = 1; then echo gone; exit 3; fi
until test -e ${{outputs.go}}/on; do sleep 0.02; done
echo after
"""


@pytest.mark.exhaustive
def test_other_ranks_go_on_after_a_failed_one(double: Double) -> None:
    distribution = {"distributionType": "PyTorch", "processCountPerInstance": 2}
    double.submit("waits", GO_ON, distribution=distribution, outputs={"go": {"jobOutputType": "uri_folder"}})
    until(lambda: log(double, "waits", "user_logs/std_log_process_1.txt"), lambda text: text == "gone\n", 20)
    touch(double, "waits")
    assert double.wait("waits")["status"] == "Failed"
    assert log(double, "waits", "user_logs/std_log_process_0.txt") == "after\n"


def touch(double: Double, job: str) -> None:
    """The job's output `go` has a file `on`, which its ranks see."""
    with open(double.blob("azureml-blobstore-double", "azureml/%s/go/on" % job), "w"):
        pass


@pytest.mark.exhaustive
def test_a_log_can_be_read_while_it_is_written(double: Double) -> None:
    command = "echo first; until test -e ${{outputs.go}}/on; do sleep 0.02; done; echo second"
    double.submit("live", command, outputs={"go": {"jobOutputType": "uri_folder", "mode": "ReadWriteMount"}})
    until(lambda: log(double, "live"), lambda text: text == "first\n", 20)
    touch(double, "live")
    assert double.wait("live")["status"] == "Completed"
    assert log(double, "live") == "first\nsecond\n"


def log(double: Double, job: str, name: str = "user_logs/std_log.txt") -> str:
    """As a client reads it: by the address of the run's details; empty where there is none."""
    url = double.details(job)["logFiles"].get(name)
    if url is None:
        return ""
    with names_resolved():
        answer = httpx.get(url, verify=double.trust())
    assert answer.status_code == 200, answer.text
    return answer.text


@pytest.mark.exhaustive
def test_a_job_that_heeds_no_sigterm_is_killed_with_all_it_started(double: Double) -> None:
    double.submit("stubborn", "trap '' TERM; (trap '' TERM; exec setsid sleep 100) & echo $!; wait; wait")
    pid = until(lambda: log(double, "stubborn"), lambda text: text.endswith("\n"), 20).strip()
    assert os.path.exists("/proc/%s" % pid)
    double.ask("POST", "/jobs/stubborn/cancel")
    assert double.wait("stubborn")["status"] == "Canceled"
    assert not os.path.exists("/proc/%s" % pid)


@pytest.mark.exhaustive
def test_a_time_limit_cancels(double: Double) -> None:
    limits = {"jobLimitsType": "Command", "timeout": "PT1S"}
    assert run(double, "limited", "sleep 100", limits=limits)["status"] == "Canceled"
    assert "limits.timeout" in double.details("limited")["warnings"][0]["message"]


@pytest.mark.exhaustive
def test_jobs_wait_for_nodes_and_are_cancelled_there(double: Double) -> None:
    double.submit("holds", "sleep 100", compute="small")
    double.wait("holds", "Running")
    double.submit("queued", "true", compute="small")
    double.submit("next", "true", compute="small")
    double.wait("queued", "Queued")
    double.ask("POST", "/jobs/queued/cancel")
    assert double.wait("queued")["status"] == "Canceled"
    assert double.states("queued") == ["NotStarted", "Queued", "CancelRequested", "Canceled"]
    double.ask("POST", "/jobs/holds/cancel")
    assert double.wait("next")["status"] == "Completed"


@pytest.mark.exhaustive
def test_a_lost_node_fails_its_job(double: Double) -> None:
    double.submit("lost", 'test "$AZUREML_CR_NODE_RANK" = 0 || sleep 100', nodes=2)
    double.wait("lost", "Running")
    double.kill_node("lost", 1)
    assert double.wait("lost")["status"] == "Failed"
    assert double.details("lost")["error"]["error"]["code"] == "NodeLost"


@pytest.mark.exhaustive
@pytest.mark.parametrize("mode", ["Upload", "ReadWriteMount"])
def test_outputs_are_kept_and_optional_inputs_may_be_missing(double: Double, mode: str) -> None:
    name = "outputs-" + mode
    command = "echo $[[--n ${{inputs.n}}]] ${{ inputs.m }} > ${{outputs.o}}/file; mkdir -p logs/a; echo x > logs/a/b"
    inputs = {"m": {"jobInputType": "literal", "value": "1"}}
    run(double, name, command, inputs=inputs, outputs={"o": {"jobOutputType": "uri_folder", "mode": mode}})
    with open(double.blob("azureml-blobstore-double", "azureml/%s/o/file" % name)) as file:
        assert file.read() == "1\n"
    assert double.artifact(name, "logs/a/b") == b"x\n"


@pytest.mark.exhaustive
@pytest.mark.parametrize("mode", ["Upload", "ReadWriteMount"])
@pytest.mark.parametrize("place", ["../../../elsewhere", "/x", "a//b"])
def test_an_output_lies_below_its_datastore(double: Double, mode: str, place: str) -> None:
    name = "outside-%s-%d" % (mode, len(place))
    uri = "azureml://datastores/workspaceblobstore/paths/" + place
    outputs = {"o": {"jobOutputType": "uri_folder", "mode": mode, "uri": uri}}
    assert run(double, name, "echo x > ${{outputs.o}}/file", outputs=outputs)["status"] == "Failed"
    assert double.details(name)["error"]["error"]["code"] == "InvalidResourceName"
    assert not os.path.exists(os.path.join(double.folder, "..", "elsewhere"))


@pytest.mark.exhaustive
def test_an_input_that_is_not_there_fails_the_job(double: Double) -> None:
    uri = "azureml://datastores/workspaceblobstore/paths/../requests.log"
    inputs = {"i": {"jobInputType": "uri_file", "uri": uri, "mode": "Download"}}
    assert run(double, "no-input", "cat ${{inputs.i}}", inputs=inputs)["status"] == "Failed"
    assert run(double, "no-name", "cat ${{inputs.j}}")["status"] == "Failed"
    assert "${{inputs.j}}" in double.details("no-name")["error"]["error"]["message"]


@pytest.mark.exhaustive
def test_a_job_of_one_name_is_there_once(double: Double) -> None:
    double.submit("once", "echo a")
    double.submit("once", "echo a")
    again = double.call(
        "PUT", "/jobs/once", {"properties": {"jobType": "Command", "command": "b", "environmentId": "e"}}
    )
    assert again.status_code == 400
    double.wait("once")
    assert double.artifact("once", "user_logs/std_log.txt") == b"a\n"
