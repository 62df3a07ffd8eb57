"""A worker of a pool was killed, as for want of memory; the pool has a new one, and the result never comes."""

import multiprocessing
import os
import signal

import torch.distributed as dist
from model import batch, ddp, start
from ranks import STEPS, about_to_hang, hangs, say


def tokenize(number: int) -> int:
    os.kill(os.getpid(), signal.SIGKILL)
    return number


start()
net, optimizer = ddp()
for step in range(STEPS):
    loss = net(batch(step)).square().mean()
    optimizer.zero_grad()
    loss.backward()  # others
    optimizer.step()
    say("step %d: loss %.4f" % (step, loss))
    if hangs(step):
        with multiprocessing.get_context("fork").Pool(1) as pool:
            about_to_hang()
            pool.map(tokenize, [step])  # here
dist.destroy_process_group()
