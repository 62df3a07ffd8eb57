"""The examples, and the samples of Azure's guide, in a workspace: the double starts their ranks as real processes."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from azureml_double.double import Double
from azureml_double.fixtures import compute_table, double_target

from worldsize_conformance.fixtures import make_place
from worldsize_conformance.place import Place

EXAMPLES = Path(__file__).resolve().parents[2] / "examples"
pytestmark = [pytest.mark.training, pytest.mark.timeout(600)]


@pytest.fixture
def cloud(azureml: Double, tmp_path: Path) -> Iterator[Place]:
    """A project whose computes `cloud` and, as the guide calls it, `cpu-cluster` are the double's cluster."""
    yield from make_place(
        str(tmp_path),
        double_target(azureml, compute_table(azureml, "cloud") + compute_table(azureml, "cpu-cluster"), 240),
    )


def accuracy(text: str) -> float:
    (found,) = re.findall(r"^(?:\S+: )?accuracy=(\d\.\d+)$", text, re.MULTILINE)
    return float(found)


def log(cloud: Place, rank: int = 0) -> str:
    return cloud.ok("logs", "--rank", str(rank), "--raw").out


def run(cloud: Place, example: str, *words: str) -> None:
    result = cloud("run", str(EXAMPLES / example / "job.yml"), "--compute", "cloud", *words, timeout=300)
    assert result.code == 0, result


def in_environment(name: str) -> tuple[str, str]:
    return "--set", "environment=azureml:AzureML-%s@latest" % name


def execute(cloud: Place, script: str) -> str:
    """What a Python script prints that is executed in the project."""
    environ = {**os.environ, **cloud.environ, "WORLDSIZE_HOME": cloud.home}
    done = subprocess.run([sys.executable, script], cwd=cloud.project, env=environ, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    return done.stdout


def launcher_logs(cloud: Place) -> set[str]:
    names = os.listdir(cloud.path(cloud.latest(), "attempt-0", "logs"))
    return {name for name in names if not name.startswith(("rank", "agent"))}


def learnt(cloud: Place) -> None:
    """What the same job comes to on this machine (tests/e2e/jobs/test_examples.py), its model among the outputs."""
    text = log(cloud)
    losses = [float(loss) for loss in re.findall(r"^epoch +\d+/10  loss=(\d\.\d+)$", text, re.MULTILINE)]
    assert accuracy(text) >= 0.95 and len(losses) == 10 and losses[-1] < 0.5 * losses[0], text
    assert (cloud.status()["nodes"], cloud.status()["ranks"]) == (2, 4)
    cloud.fetch_outputs(cloud.latest())
    assert os.path.getsize(cloud.path(cloud.latest(), "outputs", "model.pt")) > 10_000


def test_digits(cloud: Place) -> None:
    run(cloud, "digits")
    learnt(cloud)


@pytest.mark.exhaustive
def test_the_guides_pytorch_sample(cloud: Place) -> None:
    """The data of the second job is the output of the first one: it stays in the workspace."""
    text = (EXAMPLES / "azure-cifar" / "submit.py").read_text().replace('compute="local"', 'compute="cloud"')
    for name in ("src", "make_small_cifar.py"):
        os.symlink(EXAMPLES / "azure-cifar" / name, Path(cloud.project, name))
    cloud.write("submit.py", text)
    printed = execute(cloud, "submit.py")
    assert printed.startswith("SUCCEEDED\n")
    assert accuracy(printed) >= 0.9
    cloud.fetch_outputs(cloud.latest())
    assert os.path.exists(cloud.path(cloud.latest(), "outputs", "cifar_net.pt"))


@pytest.mark.exhaustive
def test_the_guides_eight_arguments_from_the_job_file(cloud: Place) -> None:
    """The data lie on this machine, and are uploaded."""
    data = os.path.join(cloud.project, "data")
    subprocess.run([sys.executable, str(EXAMPLES / "azure-cifar" / "make_small_cifar.py"), data], check=True)
    run(cloud, "azure-cifar", "--set", "inputs.cifar.path=" + data, "--set", "inputs.prtfreq=4")
    text = log(cloud)
    assert accuracy(text) >= 0.9 and "epoch 10, batch 4/8: loss " in text
    cloud.fetch_outputs(cloud.latest())
    assert os.path.exists(cloud.path(cloud.latest(), "outputs", "cifar_net.pt"))


@pytest.mark.exhaustive
def test_the_guides_tensorflow_sample(cloud: Place) -> None:
    """Two workers and a parameter server, said as a dict, then as an object."""
    for name in ("src", "submit.py"):
        os.symlink(EXAMPLES / "azure-tensorflow" / name, Path(cloud.project, name))
    printed = execute(cloud, "submit.py")
    assert printed.startswith("SUCCEEDED\n") and printed.endswith("SUCCEEDED\n")
    assert accuracy(printed) > 0.85
    assert [(each["nodes"], each["ranks"]) for each in cloud.json("list")] == [(2, 3), (2, 3)]
    cloud.fetch_outputs(cloud.latest())
    assert os.path.exists(cloud.path(cloud.latest(), "outputs", "keras-model", "model.npz"))


LAUNCHER = ("--set", "command=deepspeed train.py --config ds_config.json --epochs ${{inputs.epochs}}")


@pytest.mark.exhaustive
@pytest.mark.parametrize(
    "words, launcher",
    [
        ((), set()),
        (("--set", "distribution.type=pytorch", *LAUNCHER), {"deepspeed-0000.log", "deepspeed-0001.log"}),
        (("--set", "distribution.type=mpi"), {"mpirun-0000.log"}),
    ],
    ids=["direct", "launcher", "mpi"],
)
def test_deepspeed_as_the_guide_has_it(cloud: Place, words: tuple[str, ...], launcher: set[str]) -> None:
    run(cloud, "deepspeed-zero2", *in_environment("deepspeed"), *words)
    assert "ZeRO stage 2, 64 images per step" in log(cloud) and accuracy(log(cloud)) > 0.85
    assert launcher <= launcher_logs(cloud)


@pytest.mark.exhaustive
def test_torchrun(cloud: Place) -> None:
    run(cloud, "digits", "--set", "distribution.launcher=torchrun")
    learnt(cloud)
    assert {"torchrun-0000.log", "torchrun-0001.log"} <= launcher_logs(cloud)


@pytest.mark.exhaustive
def test_mpirun(cloud: Place) -> None:
    """It starts the ranks of both nodes, which see no common directory, with the Open MPI of the job's environment."""
    run(cloud, "mpi-allreduce", "--set", "inputs.megabytes=0.1", *in_environment("mpi"))
    for rank in range(4):
        assert re.search(r"^rank %d of 4 on \S+: allreduce=ok$" % rank, log(cloud, rank), re.MULTILINE)
    assert " ms for 0.1 MB, by Open MPI v5." in log(cloud) and "mpirun-0000.log" in launcher_logs(cloud)


@pytest.mark.exhaustive
def test_jax(cloud: Place) -> None:
    run(cloud, "jax-psum", *in_environment("jax"))
    assert "processes=4 devices=4\nallreduce=ok\n" in log(cloud) and accuracy(log(cloud)) > 0.98


@pytest.mark.exhaustive
def test_workers_of_tensorflow(cloud: Place) -> None:
    run(cloud, "tensorflow-multiworker", "--set", "distribution.worker_count=2", *in_environment("tensorflow"))
    assert "\nreplicas=2\n" in log(cloud) and accuracy(log(cloud)) > 0.9


RAY = """
import ray
from ray.util.scheduling_strategies import NodeAffinitySchedulingStrategy

ray.init()

@ray.remote(num_cpus=1)
def where():
    return ray.get_runtime_context().get_node_id()

nodes = [node["NodeID"] for node in ray.nodes()]
tasks = [where.options(scheduling_strategy=NodeAffinitySchedulingStrategy(node, soft=False)).remote() for node in nodes]
print("nodes", len(nodes), "used", len({*ray.get(tasks)}), flush=True)
raise SystemExit(7)
"""


@pytest.mark.exhaustive
def test_ray(cloud: Place) -> None:
    """A cluster of both nodes, which make the same secret of the run's; the exit code is the command's."""
    cloud.write("src/train.py", RAY)
    environment = in_environment("ray")[1].partition("=")[2]
    cloud.job("python train.py", "2x1", code="src", environment=environment, distribution={"type": "ray"})
    result = cloud("run", "job.yml", timeout=300)
    assert result.code == 7 and "nodes 2 used 2" in log(cloud), result
