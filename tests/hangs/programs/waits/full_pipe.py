"""One rank writes events into a pipe that nobody empties any more."""

import os

import torch.distributed as dist
from model import batch, ddp, start
from ranks import STEPS, about_to_hang, hangs, say

start()
net, optimizer = ddp()
for step in range(STEPS):
    loss = net(batch(step)).square().mean()
    optimizer.zero_grad()
    loss.backward()  # others
    optimizer.step()
    say("step %d: loss %.4f" % (step, loss))
    if hangs(step):
        _, events = os.pipe()
        about_to_hang()
        os.write(events, b"x" * 1_000_000)  # here
dist.destroy_process_group()
