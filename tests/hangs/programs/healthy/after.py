"""One rank is slow when the others have ended."""

import torch.distributed as dist
from model import batch, ddp, start
from pace import STEPS
from phases.every import slow_phase
from ranks import is_slow, say

start()
net, optimizer = ddp()
for step in range(STEPS):
    loss = net(batch(step)).square().mean()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    say("step %d: loss %.4f" % (step, loss))
dist.destroy_process_group()
if is_slow():
    slow_phase()
