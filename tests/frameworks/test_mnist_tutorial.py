"""The Slurm tutorial in its own size: 60,000 images in MNIST's format, its network, 14 epochs, both scripts. The images
are Debian's Fashion-MNIST, since nothing is downloaded here."""

from __future__ import annotations

import os
import re
import shutil
import sys

import pytest
from slurm.cluster import Cluster
from slurm.config import Flavour
from slurm.fixtures import skip_without_cluster
from slurm.login import login_of
from tutorials import TARA, TARA_DDP

CHECKOUT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
IMAGES = "/usr/share/datasets/fashion-mnist"
EPOCHS = 14
TRAINED = re.compile(r"^Train Epoch: (\d+) \[(\d+)/60000 \((\d+)%\)\]\tLoss: \d+\.\d{6}$", re.MULTILINE)
TESTED = re.compile(r"^Test set: Average loss: \d\.\d{4}, Accuracy: (\d+)/10000 \((\d+)%\)$", re.MULTILINE)


@pytest.mark.exhaustive
@pytest.mark.long(minutes=30)
@pytest.mark.timeout(7200)
@pytest.mark.parametrize(("nodes", "right"), [(1, 9000), (2, 8800)])
def test_all_epochs_of_both_scripts(nodes: int, right: int) -> None:
    """Of 10,000 images that the network has not seen at least `right` are recognised."""
    pytest.importorskip("torch")
    if not os.path.isdir(IMAGES):
        pytest.skip("no %s: sh scripts/system-packages.sh" % IMAGES)
    skip_without_cluster(accounting=False)
    ranks = 8 * nodes
    with Cluster.start(Flavour(nodes=2, cpus=8, gpus=8, accounting=False)) as cluster, login_of(cluster) as login:
        login.environ["PATH"] = os.path.dirname(sys.executable) + os.pathsep + login.environ["PATH"]
        for name in ("train.py", "idx.py"):
            shutil.copy(os.path.join(CHECKOUT, "examples", "mnist", "src", name), login.project)
        login.write("DDP.py", TARA_DDP)
        script = "script-N-%d-worldsize-%d.sh" % (nodes, ranks)
        login.write(script, TARA % {"nodes": nodes, "ranks": ranks, "data": IMAGES, "epochs": EPOCHS})
        run = login.submit(script)
        assert login.ended(run, 7000)["exit_code"] == 0
        logs = [login.read(run, "attempt-0", "logs", "rank-%05d.log" % rank) for rank in range(ranks)]
    hosts = ["node%d" % (1 + rank // 8) for rank in range(ranks)]
    assert "WORLD_SIZE=%d MASTER_PORT=15347 MASTER_ADDR=node1\n" % ranks in logs[0]
    assert logs[0].count("Group initialized? True\n") == 1
    for rank, (log, host) in enumerate(zip(logs, hosts, strict=True)):
        hello = "Hello from rank %d of %d on %s where there are 8 allocated GPUs per node.\n"
        assert hello % (rank, ranks, host) in log
        assert "host: %s, rank: %d, local_rank: %d\n" % (host, rank, rank % 8) in log
    share = 60000 // ranks
    batches = -(-share // 64)
    lines = [
        (str(epoch), str(64 * batch), "%.0f" % (100 * batch / batches))
        for epoch in range(1, EPOCHS + 1)
        for batch in range(0, batches, 10)
    ]
    assert TRAINED.findall(logs[0]) == lines
    accuracies = [int(count) for count, _ in TESTED.findall(logs[0])]
    assert len(accuracies) == EPOCHS
    print("accuracy after %d epochs on %d ranks: %s" % (EPOCHS, ranks, accuracies))
    assert accuracies[-1] >= right
