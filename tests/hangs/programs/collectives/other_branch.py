"""One rank's input takes another branch of the model, so that some parameters have no gradient there."""

import torch
import torch.distributed as dist
from model import batch, ddp, layers, start
from ranks import AT, about_to_hang, hangs, is_culprit, say
from torch import nn


class Branches(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.usual, self.rare = layers(), layers()

    def forward(self, x: torch.Tensor, rare: bool) -> torch.Tensor:
        return self.usual(x) if rare else self.usual(x) + self.rare(x)


start()
net, optimizer = ddp(Branches())
for step in range(AT + 1):
    loss = net(batch(step), hangs(step)).square().mean()
    optimizer.zero_grad()
    loss.backward()  # others
    optimizer.step()
    say("step %d: loss %.4f" % (step, loss))
if is_culprit():
    about_to_hang()
dist.barrier()  # here
dist.destroy_process_group()
