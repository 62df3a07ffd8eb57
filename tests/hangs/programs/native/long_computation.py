"""One rank computes in one call of numpy for hours."""

import numpy as np
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
        np.correlate(np.ones(30_000_000), np.ones(30_000_000), "full")  # here
dist.destroy_process_group()
