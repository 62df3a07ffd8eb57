"""One rank selects among connections of which none will have anything to read."""

import selectors
import socket

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
        selector = selectors.DefaultSelector()
        pair = socket.socketpair()
        selector.register(pair[0], selectors.EVENT_READ)
        about_to_hang()
        selector.select()  # here
dist.destroy_process_group()
