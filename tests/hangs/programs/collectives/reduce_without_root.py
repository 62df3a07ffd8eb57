"""The root of a reduce leaves it out and is at the barrier behind it; the others wait in the reduce."""

import torch
import torch.distributed as dist
from model import start
from ranks import CULPRIT, STEPS, about_to_hang, hangs, say

start()
for step in range(STEPS):
    value = torch.ones(1 << 20)
    if hangs(step):
        about_to_hang()
    else:
        dist.reduce(value, CULPRIT)  # others
    dist.barrier()  # here
    say("step %d" % step)
dist.destroy_process_group()
