"""check on a simulated cluster: nodes that call paths otherwise, and that are chosen by name."""

from __future__ import annotations

import json
from collections.abc import Iterator

import pytest

from hpcpack.simulator import Simulator
from hpcpack.test_commands import Client


@pytest.fixture
def client(hpcpack: Simulator) -> Iterator[Client]:
    made = Client(hpcpack)
    yield made
    made.close()


def test_the_nodes_of_a_job_and_its_files_as_they_call_them(client: Client) -> None:
    client.write("data.txt", "1")
    client.write("job.yml", "command: 'true'\ninputs: {data: {type: uri_file, path: data.txt}}\n")
    done = client("check", "job.yml", "-w", "3x2", "--only", "files,limits", "-o", "json")
    assert done.code == 0, done
    found = json.loads(done.out)
    assert done.code == 0 and found["nodes"] == ["cn01", "cn02", "cn03"], found
    plan = json.loads(client.read(found["run"], "plan.json"))
    [[key, path]] = plan["options"]["check"]["asked"]["paths"]
    assert key == "inputs.data" and path.startswith("/app/")
    assert {row["verdict"] for row in found["rows"] if row["id"] == "files.inputs"} == {"ok"}


def test_a_job_goes_to_the_nodes_that_are_left(client: Client) -> None:
    client.configure("gpus_per_node = 8")
    words = ("check", "-w", "2x1", "--only", "gpu.count", "--exclude-bad", "-o", "json", "--", "true")
    done = client(*words)
    assert done.code == 0, done
    found = json.loads(done.out)
    assert found["verdict"] == "bad", found
    assert found["nodes"] == ["cn01", "cn02"]
    assert client.ok("wait", found["submitted"]).code == 0
    assert "cn03" in client.read(found["submitted"], "submission.txt")
    assert "cn01" not in client.read(found["submitted"], "submission.txt")
    done = client("check", "-w", "3x1", *words[3:])
    assert done.code == 2 and "1 node is left, and the run has 3" in done.err
