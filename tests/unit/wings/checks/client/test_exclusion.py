"""`--exclude-bad`: the job on other nodes, at the same size."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from checked_jobs import cluster

from worldsize.compute.capabilities import ComputeNode
from worldsize.errors import UsageError
from worldsize.jobspec.config.config import ComputeSettings
from worldsize.jobspec.job import Job, Resources
from worldsize.wings.checks.exclusion import require_exclusion, without_nodes

JOB = Job(command="true", resources=Resources(2))


def compute(*names: str, capabilities: tuple[str, ...] = ("nodes", "queue", "steps")) -> Any:
    nodes = [ComputeNode(name, "idle") for name in names]
    return SimpleNamespace(name="lab", capabilities=frozenset(capabilities), nodes=lambda: nodes)


def test_slurm(tmp_path: Path) -> None:
    settings, lab = cluster(tmp_path), compute("node1", "node2", "node3")
    assert without_nodes(JOB, ["node2"], lab, settings).slurm == {"exclude": ("node2",)}
    assert without_nodes(JOB, [], lab, settings) == JOB
    said = JOB._replace(slurm={"exclude": "old[1,5],old[7,5]", "partition": "gpu"})
    assert without_nodes(said, ["node1", "node3"], lab, settings).slurm == {
        "exclude": ("old[1,5],old[7,5]", "node1", "node3"), "partition": "gpu",
    }  # fmt: skip
    configured = cluster(tmp_path, options={"exclude": ("old1", "old2")})
    assert without_nodes(JOB, ["node1"], lab, configured).slurm["exclude"] == ("old1", "old2", "node1")


def test_nodes_call_themselves_by_longer_names_than_their_scheduler(tmp_path: Path) -> None:
    lab = compute("node1", "Node2", "node3.other.org")
    found = without_nodes(JOB, ["node1.example.org", "NODE2", "node3"], lab, cluster(tmp_path))
    assert found.slurm["exclude"] == ("node1", "Node2", "node3.other.org")
    with pytest.raises(UsageError, match="does not know node node9"):
        without_nodes(JOB, ["node9"], lab, cluster(tmp_path))


def test_hpc_pack() -> None:
    settings, lab = ComputeSettings("pack", "hpcpack"), compute("N1", "N2", "N3", capabilities=("nodes", "queue"))
    assert without_nodes(JOB, ["n2"], lab, settings).hpcpack == {"nodes": ("N1", "N3")}
    named = JOB._replace(hpcpack={"nodes": "N1, N2", "priority": "Normal"})
    with pytest.raises(UsageError, match="1 node is left, and the run has 2"):
        without_nodes(named, ["n2"], lab, settings)
    assert without_nodes(named, ["n3"], lab, settings).hpcpack == {"nodes": ("N1", "N2"), "priority": "Normal"}


@pytest.mark.parametrize(
    ("kind", "capabilities", "says"),
    [
        ("local", ("local", "nodes"), "this machine"),
        ("slurm", ("nodes", "steps"), "allocation"),
        ("azureml", ("queue",), "cannot leave nodes out"),
    ],
)
def test_computes_without_other_nodes(kind: str, capabilities: tuple[str, ...], says: str) -> None:
    with pytest.raises(UsageError, match=says):
        require_exclusion(compute(capabilities=capabilities), ComputeSettings("x", kind))


def test_computes_with_other_nodes(tmp_path: Path) -> None:
    require_exclusion(compute(), cluster(tmp_path))
    require_exclusion(compute(capabilities=("nodes", "queue")), ComputeSettings("pack", "hpcpack"))
