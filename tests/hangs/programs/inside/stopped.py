"""One rank is stopped while it is in a broadcast, which the others come through."""

import subprocess
import time

import torch
import torch.distributed as dist
from model import start
from ranks import AT, LAST, RANK, STEPS, about_to_hang, hangs, say

STOP = "sleep 1; kill -STOP $PPID"

start()
for step in range(STEPS):
    if hangs(step):
        stopper = subprocess.Popen(["sh", "-c", STOP])
        about_to_hang()
    if step == AT and RANK == LAST:
        time.sleep(3)
    dist.broadcast(torch.ones(4), LAST)  # here
    dist.barrier()  # others
    say("step %d" % step)
dist.destroy_process_group()
