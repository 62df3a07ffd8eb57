"""One rank waits in the store for a key that nobody sets."""

import datetime

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
        dist.distributed_c10d._get_default_store().wait(["vocabulary"], datetime.timedelta(hours=1))  # here
dist.destroy_process_group()
