"""One rank looks again and again for a file that rank 0 has not written."""

import os
import time

import torch.distributed as dist
from model import batch, ddp, start
from ranks import STEPS, about_to_hang, hangs, say

start()
net, optimizer = ddp()
for step in range(STEPS):
    if hangs(step):
        about_to_hang()
        while not os.path.exists("vocabulary.json"):
            time.sleep(0.2)  # here
    loss = net(batch(step)).square().mean()
    optimizer.zero_grad()
    loss.backward()  # others
    optimizer.step()
    say("step %d: loss %.4f" % (step, loss))
dist.destroy_process_group()
