"""All ranks but one make a group; that one goes on to the next reduction."""

import torch
import torch.distributed as dist
from model import start
from ranks import AT, STEPS, about_to_hang, hangs, say

start()
for step in range(STEPS):
    if hangs(step):
        about_to_hang()
    elif step == AT:
        dist.new_group()  # others
    dist.all_reduce(torch.ones(1 << 20))  # here
    say("step %d" % step)
dist.destroy_process_group()
