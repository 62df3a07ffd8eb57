"""A task of a pool with one thread waits for another task of that pool."""

from concurrent.futures import ThreadPoolExecutor

import torch.distributed as dist
from model import batch, ddp, start
from ranks import STEPS, about_to_hang, hangs, say

pool = ThreadPoolExecutor(1)


def upload() -> int:
    return pool.submit(int, "1").result()  # thread


start()
net, optimizer = ddp()
for step in range(STEPS):
    loss = net(batch(step)).square().mean()
    optimizer.zero_grad()
    loss.backward()  # others
    optimizer.step()
    say("step %d: loss %.4f" % (step, loss))
    if hangs(step):
        task = pool.submit(upload)
        about_to_hang()
        task.result()  # here
dist.destroy_process_group()
