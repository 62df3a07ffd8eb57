"""A child process was killed while it held the lock that all processes of the rank share."""

import multiprocessing
import os
import signal
from multiprocessing.synchronize import Lock

import torch.distributed as dist
from model import batch, ddp, start
from ranks import STEPS, about_to_hang, hangs, say


def write(lock: Lock) -> None:
    lock.acquire()
    os.kill(os.getpid(), signal.SIGKILL)


start()
context = multiprocessing.get_context("fork")
lock = context.Lock()
net, optimizer = ddp()
for step in range(STEPS):
    if hangs(step):
        child = context.Process(target=write, args=(lock,))
        child.start()
        child.join()
        about_to_hang()
    lock.acquire()  # here
    loss = net(batch(step)).square().mean()
    lock.release()
    optimizer.zero_grad()
    loss.backward()  # others
    optimizer.step()
    say("step %d: loss %.4f" % (step, loss))
dist.destroy_process_group()
