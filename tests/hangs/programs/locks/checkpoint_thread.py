"""A thread writes checkpoints and is joined by the training that holds the lock which it needs."""

import threading

import torch.distributed as dist
from model import batch, ddp, start
from ranks import STEPS, about_to_hang, hangs, say

state = threading.Lock()


def write() -> None:
    with state:  # thread
        say("written")


start()
net, optimizer = ddp()
for step in range(STEPS):
    loss = net(batch(step)).square().mean()
    optimizer.zero_grad()
    loss.backward()  # others
    optimizer.step()
    say("step %d: loss %.4f" % (step, loss))
    if hangs(step):
        with state:
            writer = threading.Thread(target=write, daemon=True)
            writer.start()
            about_to_hang()
            writer.join()  # here
dist.destroy_process_group()
