"""Two ranks call all_reduce and two broadcast: no one can say which of them are wrong."""

import torch
import torch.distributed as dist
from model import start
from ranks import AT, RANK, STEPS, about_to_hang, say

start()
for step in range(STEPS):
    value = torch.ones(1 << 20)
    if step == AT:
        about_to_hang()
    if step == AT and RANK % 2:
        dist.broadcast(value, 0)  # others
    else:
        dist.all_reduce(value)  # here
    say("step %d" % step)
dist.destroy_process_group()
