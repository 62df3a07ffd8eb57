"""One rank has ended with 0; a child that it has forked keeps its connections open, so that no one sees it go."""

import multiprocessing
import os
import time

import torch.distributed as dist
from model import batch, ddp, start
from ranks import STEPS, about_to_hang, hangs, say

start()
net, optimizer = ddp()
for step in range(STEPS):
    if hangs(step):
        multiprocessing.get_context("fork").Process(target=time.sleep, args=(1e6,)).start()
        about_to_hang()
        os._exit(0)
    loss = net(batch(step)).square().mean()
    optimizer.zero_grad()
    loss.backward()  # others
    optimizer.step()
    say("step %d: loss %.4f" % (step, loss))
dist.destroy_process_group()
