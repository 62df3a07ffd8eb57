"""All train, and none writes a line."""

import time

import torch
import torch.distributed as dist
from model import batch, ddp, start
from pace import DURATION

end = time.monotonic() + DURATION
start()
net, optimizer = ddp()
over = torch.zeros(1)
step = 0
while not over:
    loss = net(batch(step)).square().mean()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    over += time.monotonic() > end
    dist.all_reduce(over)
    step += 1
dist.destroy_process_group()
