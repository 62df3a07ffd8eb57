"""One rank is stopped, as by a debugger or by somebody's Ctrl-Z."""

import os
import signal

import torch.distributed as dist
from model import batch, ddp, start
from ranks import STEPS, about_to_hang, hangs, say

start()
net, optimizer = ddp()
for step in range(STEPS):
    if hangs(step):
        about_to_hang()
        os.kill(os.getpid(), signal.SIGSTOP)  # here
    loss = net(batch(step)).square().mean()
    optimizer.zero_grad()
    loss.backward()  # others
    optimizer.step()
    say("step %d: loss %.4f" % (step, loss))
dist.destroy_process_group()
