"""check on real nodes of a scheduler: it is a run like others, and names the node that is bad."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator

import pytest
from slurm.login import Login

NODE_IDS = "files,limits,memory,cpu"


@pytest.fixture
def hidden(login: Login) -> Iterator[str]:
    """A file of the shared directory that node3 does not see: something else is mounted there."""
    login.write("data/set.bin", "1")
    directory, cluster = os.path.join(login.project, "data"), login.cluster
    cluster.run(cluster.on_node("node3", ["mount", "-t", "tmpfs", "none", directory]))
    yield os.path.join(directory, "set.bin")
    cluster.run(cluster.on_node("node3", ["umount", directory]))


def test_four_nodes_that_are_fine(login: Login) -> None:
    job = login.job("true", "4x2", slurm={"cpus_per_rank": 1, "time": "1:00:00"})
    done = login("check", job, "--only", NODE_IDS, "-o", "json")
    found = json.loads(done.out)
    assert done.code == 0 and found["verdict"] in ("ok", "warning"), found
    assert sorted(found["nodes"]) == ["node1", "node2", "node3", "node4"]
    script = login.read(found["run"], "submission.txt")
    assert "--ntasks-per-node=1" in script and "--cpus-per-task=2" in script and "--time=30" in script
    login.nothing_left(found["run"])


def test_the_node_that_lacks_a_mount_is_named_and_left_out(login: Login, hidden: str) -> None:
    keys = {"inputs": {"data": {"type": "uri_file", "path": hidden}}, "slurm": {"exclude": "node1"}}
    job = login.job("cat ${{inputs.data}}", "2x1", **keys)
    words = ("check", job, "--only", "files.inputs", "-o", "json")
    done = login(*words)
    assert done.code == 1, done
    found = json.loads(done.out)
    assert found["nodes"] == ["node2", "node3"]
    assert {row["node"] for row in found["rows"] if row["verdict"] == "bad"} == {"node3"}
    done = login(*words, "--exclude-bad")
    assert done.code == 0, done
    run = json.loads(done.out)["submitted"]
    assert login.ended(run)["state"] == "SUCCEEDED" and login.hosts(run) == ["node2", "node4"]
