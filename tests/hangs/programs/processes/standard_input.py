"""A program reads from its standard input, which stays open, while the rank waits for its end."""

import subprocess

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
        sort = subprocess.Popen(["sort"], stdin=subprocess.PIPE)
        about_to_hang()
        sort.wait()  # here
dist.destroy_process_group()
