"""A sample's file is locked (flock) by another process that never gives it back."""

import fcntl
import subprocess

import torch.distributed as dist
from model import SIZE, Samples, ddp, start
from ranks import RANK, about_to_hang, hangs, say
from torch.utils.data import DataLoader

SHARD = "shard-%d.lock" % RANK
HOLD = ["flock", SHARD, "sh", "-c", "echo; exec sleep 1000000"]


class Shared(Samples):
    def fetch(self, index: int) -> None:
        with open(SHARD, "w") as file:
            if hangs(index / SIZE):
                with subprocess.Popen(
                    ["flock", SHARD, "-c", "echo; exec sleep 1000000"], stdout=subprocess.PIPE
                ) as held:
                    assert held.stdout is not None
                    held.stdout.readline()
                    about_to_hang()
                    fcntl.flock(file, fcntl.LOCK_EX)  # here
            fcntl.flock(file, fcntl.LOCK_EX)


start()
net, optimizer = ddp()
for step, x in enumerate(DataLoader(Shared(), batch_size=SIZE)):
    loss = net(x).square().mean()
    optimizer.zero_grad()
    loss.backward()  # others
    optimizer.step()
    say("step %d: loss %.4f" % (step, loss))
dist.destroy_process_group()
