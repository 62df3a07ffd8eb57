"""One rank has fewer batches than the others and goes on to gather the metrics."""

import torch
import torch.distributed as dist
from model import SIZE, Samples, ddp, start
from ranks import AT, RANK, WORLD, about_to_hang, is_culprit, say
from torch.utils.data import DataLoader, Subset

start()
net, optimizer = ddp()
mine = Subset(Samples(), range(RANK, 400, WORLD))
if is_culprit():
    mine = Subset(mine, range(AT * SIZE))
for step, x in enumerate(DataLoader(mine, batch_size=SIZE)):
    loss = net(x).square().mean()
    optimizer.zero_grad()
    loss.backward()  # others
    optimizer.step()
    say("step %d: loss %.4f" % (step, loss))
losses = [torch.zeros(()) for _ in range(WORLD)]
if is_culprit():
    about_to_hang()
dist.all_gather(losses, loss.detach())  # here
dist.destroy_process_group()
