"""An optimizer of another module."""

import torch
from somewhere import make_optimizer, model
from torch.utils.data import DataLoader, TensorDataset

optimizer = make_optimizer(model)
for x, y in DataLoader(TensorDataset(torch.randn(20, 4), torch.randn(20, 1)), batch_size=5):
    loss = ((model(x) - y) ** 2).mean()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
