"""A library of one rank waits without having released the interpreter's lock."""

import ctypes

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
        about_to_hang()
        ctypes.PyDLL(None).sleep(1_000_000)  # here
dist.destroy_process_group()
