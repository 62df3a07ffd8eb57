"""A coroutine waits for an event that no other one sets."""

import asyncio

import torch.distributed as dist
from model import batch, ddp, start
from ranks import STEPS, about_to_hang, hangs, say


async def upload() -> None:
    about_to_hang()
    await asyncio.Event().wait()


start()
net, optimizer = ddp()
for step in range(STEPS):
    loss = net(batch(step)).square().mean()
    optimizer.zero_grad()
    loss.backward()  # others
    optimizer.step()
    say("step %d: loss %.4f" % (step, loss))
    if hangs(step):
        asyncio.run(upload())  # here
dist.destroy_process_group()
