"""A child process is stopped, and its parent joins it."""

import multiprocessing
import os
import signal

import torch.distributed as dist
from model import batch, ddp, start
from ranks import STEPS, about_to_hang, hangs, say


def convert() -> None:
    os.kill(os.getpid(), signal.SIGSTOP)  # child


start()
net, optimizer = ddp()
for step in range(STEPS):
    loss = net(batch(step)).square().mean()
    optimizer.zero_grad()
    loss.backward()  # others
    optimizer.step()
    say("step %d: loss %.4f" % (step, loss))
    if hangs(step):
        child = multiprocessing.get_context("fork").Process(target=convert)
        child.start()
        about_to_hang()
        child.join()  # here
dist.destroy_process_group()
