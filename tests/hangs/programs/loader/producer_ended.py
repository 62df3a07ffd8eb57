"""A thread that reads ahead has ended by an exception; the queue that it filled stays empty."""

import queue
import threading

import torch
import torch.distributed as dist
from model import batch, ddp, start
from ranks import STEPS, about_to_hang, hangs, say

threading.excepthook = lambda _: None
ready: queue.Queue[torch.Tensor] = queue.Queue(2)


def read_ahead() -> None:
    for step in range(STEPS):
        if hangs(step):
            raise ValueError("a damaged record")
        ready.put(batch(step))


start()
net, optimizer = ddp()
threading.Thread(target=read_ahead, daemon=True).start()
for step in range(STEPS):
    if hangs(step):
        about_to_hang()
    x = ready.get()  # here
    loss = net(x).square().mean()
    optimizer.zero_grad()
    loss.backward()  # others
    optimizer.step()
    say("step %d: loss %.4f" % (step, loss))
dist.destroy_process_group()
