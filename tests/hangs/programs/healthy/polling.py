"""One rank computes; the others look again and again whether their all_reduce is over."""

import time

import torch
import torch.distributed as dist
from model import start
from pace import SLOW_AT, STEPS
from phases.every import slow_phase
from ranks import is_slow, say

start()
for step in range(STEPS):
    if step == SLOW_AT and is_slow():
        slow_phase()
    work = dist.all_reduce(torch.ones(100), async_op=True)
    assert work is not None
    while not work.is_completed():
        time.sleep(0.01)
    say("step %d" % step)
dist.destroy_process_group()
