"""One rank is slow, alone, while the others wait for it at a barrier."""

import torch.distributed as dist
from model import batch, ddp, start
from pace import SLOW_AT, STEPS
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
    if step == SLOW_AT:
        if is_slow():
            slow_phase()
        dist.barrier()
dist.destroy_process_group()
