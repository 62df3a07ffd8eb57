"""The communication hook of one rank's DDP waits for ever before it reduces anything."""

import threading
from typing import Any

import torch
import torch.distributed as dist
from model import batch, ddp, start
from ranks import STEPS, about_to_hang, hangs, say
from torch.distributed.algorithms.ddp_comm_hooks.default_hooks import allreduce_hook

now = 0


def compress(state: Any, bucket: dist.GradBucket) -> torch.futures.Future[torch.Tensor]:
    if hangs(now):
        about_to_hang()
        threading.Event().wait()  # here
    return allreduce_hook(state, bucket)


start()
net, optimizer = ddp()
net.register_comm_hook(None, compress)
for step in range(STEPS):
    now = step
    loss = net(batch(step)).square().mean()
    optimizer.zero_grad()
    loss.backward()  # others
    optimizer.step()
    say("step %d: loss %.4f" % (step, loss))
dist.destroy_process_group()
