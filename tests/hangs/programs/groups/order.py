"""Two groups of all ranks: one rank reduces by the second first."""

import torch
import torch.distributed as dist
from model import start
from ranks import STEPS, about_to_hang, hangs, say

start()
data, model = dist.new_group(), dist.new_group()
for step in range(STEPS):
    value = torch.ones(1 << 20)
    if hangs(step):
        about_to_hang()
        dist.all_reduce(value, group=model)  # here
        dist.all_reduce(value, group=data)
    else:
        dist.all_reduce(value, group=data)  # others
        dist.all_reduce(value, group=model)
    say("step %d" % step)
dist.destroy_process_group()
