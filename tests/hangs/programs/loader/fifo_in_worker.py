"""As fifo.py, in a worker of the loader; every rank has two of them."""

import os
import tempfile

import torch.distributed as dist
from model import SIZE, Samples, ddp, start
from ranks import about_to_hang, hangs, say
from torch.utils.data import DataLoader


class Piped(Samples):
    def fetch(self, index: int) -> None:
        if hangs(index / SIZE):
            path = os.path.join(tempfile.mkdtemp(dir="."), "shard")
            os.mkfifo(path)
            about_to_hang()
            with open(path, "rb") as file:  # here
                file.read()


start()
net, optimizer = ddp()
for step, x in enumerate(DataLoader(Piped(), batch_size=SIZE, num_workers=2)):  # parent
    loss = net(x).square().mean()
    optimizer.zero_grad()
    loss.backward()  # others
    optimizer.step()
    say("step %d: loss %.4f" % (step, loss))
dist.destroy_process_group()
