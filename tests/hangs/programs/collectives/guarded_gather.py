"""Rank 0 alone gathers; the others have nothing to do with it and go on to a barrier."""

import torch
import torch.distributed as dist
from model import batch, ddp, start
from ranks import STEPS, about_to_hang, hangs, say

start()
net, optimizer = ddp()
for step in range(STEPS):
    loss = net(batch(step)).square().mean()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    say("step %d: loss %.4f" % (step, loss))
    if hangs(step):
        about_to_hang()
        dist.gather(loss.detach(), [torch.zeros(()) for _ in range(dist.get_world_size())])  # here
    dist.barrier()  # others
dist.destroy_process_group()
