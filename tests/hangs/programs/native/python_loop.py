"""One rank computes for ever in Python: a loop whose condition stays true."""

import torch.distributed as dist
from model import batch, ddp, start
from ranks import STEPS, about_to_hang, hangs, say

start()
net, optimizer = ddp()
for step in range(STEPS):
    loss = net(batch(step)).square().mean()
    optimizer.zero_grad()
    loss.backward()  # others
    optimizer.step()
    say("step %d: loss %.4f" % (step, loss))
    if hangs(step):
        about_to_hang()
        number = 27
        while number != 0:
            number = number // 2 if number % 2 == 0 else 3 * number + 1  # here
dist.destroy_process_group()
