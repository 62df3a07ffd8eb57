"""Nodes that reach nothing outside: what a job needs is fetched before it is submitted, and its environment travels."""

from __future__ import annotations

import hashlib
import json
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from slurm.cluster import Cluster
from slurm.login import Login, login_of
from webserver import Site, serve

pytestmark = pytest.mark.timeout(300)

TRAIN = """\
import os, socket, sys, urllib.request
import tiny
import torch, torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel

try:
    urllib.request.urlretrieve("@URL", "outputs/never")
    raise SystemExit("this node reaches the web")
except OSError:
    print("no such server here")
try:
    socket.create_connection(("192.0.2.1", 80), 5)
except OSError as error:
    print(error.strerror)

data = torch.load(os.path.join(os.environ["WORLDSIZE_DATA"], "set", "train.pt"))
weights = torch.load(os.environ["WORLDSIZE_INPUT_WEIGHTS"])
print(tiny.NAME, sys.prefix == os.environ["VIRTUAL_ENV"], sys.prefix.startswith("/tmp/worldsize-"),
      os.environ["WORLDSIZE_INPUT_WEIGHTS"].startswith("/tmp/worldsize-"))
dist.init_process_group("gloo")
torch.manual_seed(0)
model = torch.nn.Linear(4, 1, bias=False)
model.weight.data = weights
model = DistributedDataParallel(model)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
rank, ranks = dist.get_rank(), dist.get_world_size()
for _ in range(200):
    loss = (model(data["x"][rank::ranks]) - data["y"][rank::ranks]).square().mean()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
print("loss below 1e-4: %s" % (loss.item() < 1e-4))
dist.destroy_process_group()
"""


@pytest.fixture
def site() -> Iterator[Site]:
    """A server that this machine reaches, and no node."""
    import io

    import torch

    x = torch.randn(64, 4, generator=torch.Generator().manual_seed(1))
    buffers = {name: io.BytesIO() for name in ("train.pt", "weights.pt")}
    torch.save({"x": x, "y": x @ torch.tensor([[1.0], [2.0], [3.0], [4.0]])}, buffers["train.pt"])
    torch.save(torch.zeros(1, 4), buffers["weights.pt"])
    with serve() as site:
        site.files.update({"/" + name: buffer.getvalue() for name, buffer in buffers.items()})
        yield site


@pytest.fixture(scope="module")
def packed(slurm: Cluster) -> str:
    """An environment, packed. Its torch lies where the nodes see it: packing that too takes minutes."""
    import torch

    prefix = Path(slurm.shared, "offline-env")
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", prefix], check=True)
    folder = next((prefix / "lib").glob("python*/site-packages"))
    (folder / "tiny.py").write_text("NAME = 'tiny'\n")
    (folder / "torch.pth").write_text(os.path.dirname(os.path.dirname(torch.__file__)) + "\n")
    target = os.path.join(slurm.shared, "offline-env.tar.gz")
    with login_of(slurm) as login:
        login.ok("env", "pack", str(prefix), "-o", target)
    return target


@pytest.fixture
def offline(slurm: Cluster) -> Iterator[Login]:
    with login_of(slurm, "offline = true\n") as login:
        yield login


def job_of(login: Login, site: Site, environment: object, **keys: object) -> str:
    login.write("train.py", TRAIN.replace("@URL", site.url + "/train.pt"))
    digest = hashlib.sha256(site.files["/train.pt"]).hexdigest()
    return login.job(
        "python train.py",
        "2x2",
        code=".",
        environment=environment,
        inputs={"weights": {"type": "uri_file", "path": site.url + "/weights.pt", "mode": "download"}},
        stage={"data": {"set/train.pt": "%s/train.pt#sha256=%s" % (site.url, digest)}},
        **keys,
    )


def test_it_trains_without_any_route_outside(offline: Login, site: Site, packed: str, slurm: Cluster) -> None:
    for node in slurm.node_names[:2]:
        routes = subprocess.run(slurm.on_node(node, ["ip", "route"]), capture_output=True, text=True, check=True)
        assert "default" not in routes.stdout
    result = offline("run", job_of(offline, site, packed), timeout=240)
    run = offline.latest()
    assert result.code == 0, (result, offline.status(run))
    said = ["no such server here", "Network is unreachable", "tiny True True True", "loss below 1e-4: True"]
    for rank in range(4):
        lines = offline.ok("logs", run, "--rank", str(rank), "--raw").lines
        assert [line for line in lines if not line.startswith("[W")] == said  # torch warns of names that do not resolve
    assert [asked.path for asked in site.asked] == ["/weights.pt", "/train.pt"], "once each, and before it began"
    assert len(set(offline.hosts(run))) == 2 and offline.ended(run)["state"] == "SUCCEEDED"
    assert "urllib.request.urlretrieve(…) would fail" not in result.err, "data is staged"


def test_each_node_unpacks_it_on_its_own_disk(offline: Login, packed: str) -> None:
    disk = "/tmp/%s" % os.path.basename(offline.root)
    setup = ["srun --ntasks-per-node=1 mkdir -p %s; export WORLDSIZE_LOCAL_DIR=%s" % (disk, disk)]
    command = "python -c 'import tiny, sys; print(tiny.NAME, sys.prefix)'"
    job = offline.job(command, "4x1", environment={"python": packed, "distribute": "local"}, setup=setup)
    result = offline("run", job, timeout=120)
    assert result.code == 0, (result, offline.read(offline.latest(), "batch.log"))
    (line,) = offline.ok("logs", offline.latest()).lines
    assert line.startswith("×4: tiny %s/worldsize-" % disk)
    offline.ended(offline.latest())


@pytest.mark.exhaustive
def test_an_environment_is_checked_on_every_node(offline: Login, slurm: Cluster) -> None:
    result = offline("env", "check", "--import", "msgspec", timeout=120)
    assert result.code == 0, result
    assert any("env.python" in line and " 4 nodes: " in line for line in result.lines), "all four are alike"
    slurm.command("scontrol", "update", "NodeName=node3", "State=DRAIN", "Reason=test")
    value = json.loads(offline("env", "check", "-o", "json", timeout=120).out)
    assert value["nodes"] == ["node1", "node2", "node4"]
    (left_out,) = [row for row in value["rows"] if row["id"] == "env.nodes"]
    assert (left_out["node"], left_out["verdict"]) == ("node3", "warning")


def test_the_preflight_says_what_a_download_would_do(offline: Login, site: Site) -> None:
    offline.write("train.py", "from torchvision.datasets import MNIST\nMNIST('data', download=True)\n")
    said = offline("run", offline.job("python train.py", code="."), "--dry-run").err
    assert "notice: train.py:2: MNIST(download=True) would fail: the nodes reach no network" in said
    assert "stage: {data: …}" in said
