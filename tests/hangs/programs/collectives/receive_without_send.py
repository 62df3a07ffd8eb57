"""One rank receives from rank 0, which sends nothing and waits in an all_reduce."""

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
        dist.recv(torch.zeros(4), 0)  # here
    dist.all_reduce(loss)  # others
dist.destroy_process_group()
