"""One rank adds up an endless sequence, in native code that holds the interpreter's lock."""

import itertools

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
        sum(itertools.repeat(1))  # here
dist.destroy_process_group()
