"""One rank iterates with numpy until an error is small that is not a number."""

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
        vector = np.full(100_000, np.nan)
        while not np.abs(vector).sum() < 1e-6:  # here
            vector *= 0.5
dist.destroy_process_group()
