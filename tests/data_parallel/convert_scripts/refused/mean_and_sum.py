"""A loss that is a mean, and one that is a sum, each with its backward."""

import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

one, other = nn.Linear(4, 1), nn.Linear(4, 1)
optimizer = torch.optim.SGD([*one.parameters(), *other.parameters()], lr=0.1)
loader = DataLoader(TensorDataset(torch.randn(32, 4), torch.randn(32, 1)), batch_size=8)
for x, y in loader:
    optimizer.zero_grad()
    nn.functional.mse_loss(one(x), y).backward()
    nn.functional.mse_loss(other(x), y, reduction="sum").backward()
    optimizer.step()
