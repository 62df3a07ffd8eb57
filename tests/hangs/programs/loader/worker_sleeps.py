"""A worker of one rank's data loader waits for ever for a sample."""

import time

import torch.distributed as dist
from model import SIZE, Samples, ddp, start
from ranks import about_to_hang, hangs, say
from torch.utils.data import DataLoader


class Remote(Samples):
    def fetch(self, index: int) -> None:
        if hangs(index / SIZE):
            about_to_hang()
            time.sleep(1e6)  # here


start()
net, optimizer = ddp()
for step, x in enumerate(DataLoader(Remote(), batch_size=SIZE, num_workers=1)):  # parent
    loss = net(x).square().mean()
    optimizer.zero_grad()
    loss.backward()  # others
    optimizer.step()
    say("step %d: loss %.4f" % (step, loss))
dist.destroy_process_group()
