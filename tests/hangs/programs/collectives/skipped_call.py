"""One rank skips the all_reduce of a loss that is not finite, once, and is one call behind for the rest."""

import torch
import torch.distributed as dist
from model import start
from ranks import AT, about_to_hang, hangs, is_culprit, say

start()
loss = torch.ones(4)
for step in range(AT + 3):
    if not hangs(step):
        dist.all_reduce(loss)  # others
    say("step %d" % step)
if is_culprit():
    about_to_hang()
dist.barrier()  # here
dist.destroy_process_group()
