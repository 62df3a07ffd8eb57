"""Gradients are added up over many batches, without a call of several ranks and without a line."""

import torch.distributed as dist
from model import batch, ddp, start
from pace import STEPS, until_over
from ranks import say

start()
net, optimizer = ddp()
with net.no_sync():
    for part in until_over():
        net(batch(part)).square().mean().backward()
for step in range(STEPS):
    loss = net(batch(step)).square().mean()
    loss.backward()
    optimizer.step()
    optimizer.zero_grad()
    say("step %d: loss %.4f" % (step, loss))
dist.destroy_process_group()
