"""Dumps that the installed torch writes of real hangs, with gloo on this machine."""

import os
import socket
import subprocess
import sys

import pytest

from worldsize.wings.hangs.judgement.recorder.flight_recorder import read_dump_file
from worldsize.wings.hangs.judgement.recorder.recorder_verdict import recorder_findings

pytestmark = [pytest.mark.heavy, pytest.mark.timeout(120)]

PROGRAM = """
import os, sys, threading, time
import torch, torch.distributed as dist
case, folder = sys.argv[1:]
dist.init_process_group("gloo")
rank, ones = dist.get_rank(), torch.ones(4)
pairs = [dist.new_group([0, 1]), dist.new_group([2, 3])] if case == "group" else None

def dump():
    from torch._C import _distributed_c10d
    time.sleep(2.0)
    data = _distributed_c10d._dump_fr_trace()
    with open(os.path.join(folder, str(rank)), "wb") as file:
        file.write(data)
    while len(os.listdir(folder)) < dist.get_world_size():
        time.sleep(0.05)
    os._exit(0)

for _ in range(2):
    dist.all_reduce(ones)
if case == "ddp":
    model = torch.nn.parallel.DistributedDataParallel(torch.nn.Linear(3, 2))
    for _ in range(2):
        model(torch.ones(1, 3)).sum().backward()
threading.Thread(target=dump).start()
if rank == {"absent": 1, "ddp": 0, "group": 3}.get(case):
    time.sleep(60)
if case == "ddp":
    model(torch.ones(1, 3)).sum().backward()
if case == "group":
    dist.all_reduce(ones, group=pairs[rank // 2])
if case == "other" and rank == 1:
    dist.broadcast(ones, 0)
dist.all_reduce(ones)
time.sleep(60)
"""


def findings_of(case, size, folder):
    """What is said of a hang of as many ranks; each writes its dump and ends."""
    with socket.create_server(("127.0.0.1", 0)) as listening:
        port = listening.getsockname()[1]
    place = {"MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(port), "WORLD_SIZE": str(size), "OMP_NUM_THREADS": "1"}
    command = [sys.executable, "-c", PROGRAM, case, str(folder)]
    ranks = [subprocess.Popen(command, env={**os.environ, **place, "RANK": str(rank)}) for rank in range(size)]
    try:
        assert [each.wait(60) for each in ranks] == [0] * size
    finally:
        for each in ranks:
            each.kill()
            each.wait()
    return recorder_findings([read_dump_file(str(folder / str(rank)), rank) for rank in range(size)], size)


@pytest.mark.parametrize(
    ("case", "size", "kind", "ranks", "call", "waiting"),
    [
        ("absent", 3, "H1", (1,), ("all_reduce", 3), (0, 2)),
        ("ddp", 3, "H1", (0,), ("all_reduce",), (1, 2)),
        ("group", 4, "H1", (3,), ("all_reduce",), None),
        ("other", 4, "H2", (1,), ("all_reduce", 3), (0, 2, 3)),
    ],
)
def test_the_rank_of_a_real_hang(case, size, kind, ranks, call, waiting, tmp_path):
    torch = pytest.importorskip("torch")
    if not hasattr(torch._C._distributed_c10d, "_dump_fr_trace"):
        pytest.skip("this torch does not record gloo")
    (found,) = findings_of(case, size, tmp_path)
    assert (found.kind, found.ranks) == (kind, ranks)
    assert (found.call, found.sequence)[: len(call)] == call
    assert waiting in (None, found.waiting)
