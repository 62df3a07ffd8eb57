"""One rank is slow before its backward; the others wait in theirs."""

import torch.distributed as dist
from model import batch, ddp, start
from pace import SLOW_AT, STEPS
from phases.every import slow_phase
from ranks import is_slow, say

start()
net, optimizer = ddp()
for step in range(STEPS):
    if step == SLOW_AT and is_slow():
        slow_phase()
    loss = net(batch(step)).square().mean()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    say("step %d: loss %.4f" % (step, loss))
dist.destroy_process_group()
