"""One rank fails, and on its way out waits at a barrier for the others, who know nothing of it."""

import torch.distributed as dist
from model import batch, ddp, start
from ranks import STEPS, about_to_hang, hangs, is_culprit, say

start()
net, optimizer = ddp()
try:
    for step in range(STEPS):
        if hangs(step):
            raise ValueError("a damaged record")
        loss = net(batch(step)).square().mean()
        optimizer.zero_grad()
        loss.backward()  # others
        optimizer.step()
        say("step %d: loss %.4f" % (step, loss))
finally:
    if is_culprit():
        about_to_hang()
    dist.barrier()  # here
    dist.destroy_process_group()
