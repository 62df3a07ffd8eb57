"""A function that holds a lock calls another that takes the same one."""

import threading

import torch.distributed as dist
from model import batch, ddp, start
from ranks import STEPS, about_to_hang, hangs, say

lock = threading.Lock()


def record(value: float) -> None:
    with lock:  # here
        say("loss %.4f" % value)


def finish(step: int, value: float) -> None:
    if hangs(step):
        with lock:
            about_to_hang()
            record(value)
    record(value)


start()
net, optimizer = ddp()
for step in range(STEPS):
    loss = net(batch(step)).square().mean()
    optimizer.zero_grad()
    loss.backward()  # others
    optimizer.step()
    finish(step, loss.item())
dist.destroy_process_group()
