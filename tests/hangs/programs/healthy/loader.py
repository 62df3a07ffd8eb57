"""Each sample takes a while, but less than the limit; with --workers in workers of the loader."""

import os
import time

import torch.distributed as dist
from model import SIZE, Samples, ddp, start
from pace import DURATION
from ranks import is_slow, say, words
from torch.utils.data import DataLoader, Subset

BATCHES = 3


class Slow(Samples):
    def fetch(self, index: int) -> None:
        if is_slow():
            time.sleep(DURATION / SIZE)


class Read(Samples):
    """A sample lies in a file that is read bit by bit."""

    def fetch(self, index: int) -> None:
        if is_slow():
            with open(os.path.abspath(__file__), "rb", buffering=0) as file:
                for _ in range(10):
                    file.read(100)
                    time.sleep(DURATION / SIZE / 10)


start()
net, optimizer = ddp()
samples = Subset(Read() if words.phase == "reading" else Slow(), range(SIZE * BATCHES))
for step, x in enumerate(DataLoader(samples, batch_size=SIZE, num_workers=words.workers)):
    loss = net(x).square().mean()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    say("step %d: loss %.4f" % (step, loss))
dist.destroy_process_group()
