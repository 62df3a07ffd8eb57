"""The compiler's cache is locked by another process: a FileLock, for which one looks again and again."""

import subprocess
import sys

import torch.distributed as dist
from filelock import FileLock
from model import batch, ddp, start
from ranks import RANK, STEPS, about_to_hang, hangs, say

CACHE = "cache-%d.lock" % RANK
HOLD = """
import filelock, sys, time

with filelock.FileLock(sys.argv[1]):
    print(flush=True)
    time.sleep(1e6)
"""

start()
net, optimizer = ddp()
for step in range(STEPS):
    if hangs(step):
        holder = subprocess.Popen([sys.executable, "-c", HOLD, CACHE], stdout=subprocess.PIPE)
        assert holder.stdout is not None
        holder.stdout.readline()
        about_to_hang()
    with FileLock(CACHE):  # here
        loss = net(batch(step)).square().mean()
    optimizer.zero_grad()
    loss.backward()  # others
    optimizer.step()
    say("step %d: loss %.4f" % (step, loss))
dist.destroy_process_group()
