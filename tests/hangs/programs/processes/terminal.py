"""One rank asks a question on a terminal at which nobody sits."""

import os
import sys

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
        _, terminal = os.openpty()
        os.dup2(terminal, 0)
        sys.stdin = os.fdopen(0)
        about_to_hang()
        input("go on? ")  # here
dist.destroy_process_group()
