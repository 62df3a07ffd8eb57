"""Two groups of all ranks: half of the ranks reduces by one first, half by the other."""

import torch
import torch.distributed as dist
from model import start
from ranks import AT, RANK, STEPS, about_to_hang, say

start()
data, model = dist.new_group(), dist.new_group()
for step in range(STEPS):
    value = torch.ones(1 << 20)
    first, second = (model, data) if step == AT and RANK % 2 else (data, model)
    if step == AT:
        about_to_hang()
    dist.all_reduce(value, group=first)  # here
    dist.all_reduce(value, group=second)
    say("step %d" % step)
dist.destroy_process_group()
