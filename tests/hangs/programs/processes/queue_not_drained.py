"""A child process cannot end before its queue is read, and the rank joins it first."""

from __future__ import annotations

import multiprocessing
from multiprocessing.queues import Queue

import torch.distributed as dist
from model import batch, ddp, start
from ranks import STEPS, about_to_hang, hangs, say


def tokenize(results: Queue[bytes]) -> None:
    results.put(b"x" * 1_000_000)


start()
net, optimizer = ddp()
for step in range(STEPS):
    loss = net(batch(step)).square().mean()
    optimizer.zero_grad()
    loss.backward()  # others
    optimizer.step()
    say("step %d: loss %.4f" % (step, loss))
    if hangs(step):
        context = multiprocessing.get_context("fork")
        results: Queue[bytes] = context.Queue()
        child = context.Process(target=tokenize, args=(results,))
        child.start()
        about_to_hang()
        child.join()  # here
        results.get()
dist.destroy_process_group()
