"""One rank saves its model to a path behind which there is a pipe that nobody reads: it waits as for a dead server."""

import os
import tempfile

import torch
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
        path = os.path.join(tempfile.mkdtemp(dir="."), "model.pt")
        os.mkfifo(path)
        about_to_hang()
        torch.save(net.state_dict(), path)  # here
dist.destroy_process_group()
