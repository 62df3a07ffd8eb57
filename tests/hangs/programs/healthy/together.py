"""All ranks are slow at the same time: their first batch, a warm-up, a download."""

import torch.distributed as dist
from model import batch, ddp, start
from pace import STEPS
from phases.every import slow_phase
from ranks import say

start()
net, optimizer = ddp()
slow_phase()
for step in range(STEPS):
    loss = net(batch(step)).square().mean()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    say("step %d: loss %.4f" % (step, loss))
dist.destroy_process_group()
