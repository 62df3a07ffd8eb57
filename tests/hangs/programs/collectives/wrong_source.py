"""One rank takes itself for the source of a broadcast of objects: some of the others come through, and some wait."""

import torch.distributed as dist
from model import start
from ranks import CULPRIT, RANK, STEPS, about_to_hang, hangs, say

start()
for step in range(STEPS):
    settings: list[object] = [{"step": step}]
    if hangs(step):
        about_to_hang()
    dist.broadcast_object_list(settings, RANK if hangs(step) else (CULPRIT + 1) % dist.get_world_size())  # here
    say("step %d" % step)
dist.destroy_process_group()
