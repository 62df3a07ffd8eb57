"""One rank takes three times as long for each step as the others."""

import time

import torch.distributed as dist
from model import batch, ddp, start
from pace import DURATION
from ranks import is_slow, say, words

STEP = words.limit * 0.1
start()
net, optimizer = ddp()
for step in range(int(DURATION / STEP / 3) + 1):
    time.sleep(STEP * (3 if is_slow() else 1))
    loss = net(batch(step)).square().mean()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    say("step %d: loss %.4f" % (step, loss))
dist.destroy_process_group()
