"""Large tensors are reduced, without a line."""

import time

import torch
import torch.distributed as dist
from model import start
from pace import DURATION
from ranks import say

end = time.monotonic() + DURATION
start()
gradients = torch.ones(1 << 22)
over = torch.zeros(1)
while not over:
    dist.all_reduce(gradients)
    gradients /= dist.get_world_size()
    over += time.monotonic() > end
    dist.all_reduce(over)
say("reduced")
dist.destroy_process_group()
