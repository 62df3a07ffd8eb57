"""An iterable data set waits for a condition of which nobody tells, in a worker."""

import threading
from collections.abc import Iterator

import torch
import torch.distributed as dist
from model import SIZE, batch, ddp, start
from ranks import STEPS, about_to_hang, hangs, say
from torch.utils.data import DataLoader, IterableDataset


class Stream(IterableDataset[torch.Tensor]):
    def __iter__(self) -> Iterator[torch.Tensor]:
        more = threading.Condition()
        for step in range(STEPS):
            if hangs(step):
                about_to_hang()
                with more:
                    more.wait()  # here
            yield from batch(step)


start()
net, optimizer = ddp()
for step, x in enumerate(DataLoader(Stream(), batch_size=SIZE, num_workers=1)):  # parent
    loss = net(x).square().mean()
    optimizer.zero_grad()
    loss.backward()  # others
    optimizer.step()
    say("step %d: loss %.4f" % (step, loss))
dist.destroy_process_group()
