"""One rank calls broadcast where the others call all_reduce."""

import torch
import torch.distributed as dist
from model import start
from ranks import STEPS, about_to_hang, hangs, say

start()
for step in range(STEPS):
    value = torch.ones(1 << 20)
    if hangs(step):
        about_to_hang()
        dist.broadcast(value, 0)  # here
    else:
        dist.all_reduce(value)  # others
    say("step %d" % step)
dist.destroy_process_group()
