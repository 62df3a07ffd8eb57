"""Batches of its own, in a script that prints on rank 0 alone."""

import os

import torch
from torch import nn

is_main = int(os.environ.get("RANK", 0)) == 0
torch.manual_seed(3)
X = torch.randn(96, 3)
model = nn.Linear(3, 1)
optimizer = torch.optim.SGD(model.parameters(), 0.1)
for _ in range(8):
    x = X[torch.randint(0, 96, (16,))]
    loss = (model(x) ** 2).mean()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    if is_main:
        print("%.6f" % loss.item())
