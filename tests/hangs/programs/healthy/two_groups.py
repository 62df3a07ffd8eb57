"""Two groups of ranks go on at a pace of their own, and meet at the end."""

import torch
import torch.distributed as dist
from model import start
from pace import SLOW_AT, STEPS
from phases.every import slow_phase
from ranks import CULPRIT, RANK, WORLD, is_slow, say

start()
half = WORLD // 2
groups = [dist.new_group(list(range(half))), dist.new_group(list(range(half, WORLD)))]
for step in range(STEPS):
    if step == SLOW_AT and is_slow():
        slow_phase()
    dist.all_reduce(torch.ones(100), group=groups[half <= RANK])
    say("step %d%s" % (step, ", slowly" * ((half <= CULPRIT) == (half <= RANK))))
dist.barrier()
dist.destroy_process_group()
