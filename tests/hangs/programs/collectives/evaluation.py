"""One rank evaluates by the forward of the DDP module, which broadcasts buffers; the others wait at a barrier."""

import torch
import torch.distributed as dist
from model import batch, ddp, layers, start
from ranks import STEPS, about_to_hang, hangs, say
from torch import nn

start()
net, optimizer = ddp(nn.Sequential(nn.BatchNorm1d(8), layers()))
for step in range(STEPS):
    loss = net(batch(step)).square().mean()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    say("step %d: loss %.4f" % (step, loss))
    if hangs(step):
        net.eval()
        about_to_hang()
        with torch.no_grad():
            net(batch(0))  # here
        net.train()
    dist.barrier()  # others
dist.destroy_process_group()
