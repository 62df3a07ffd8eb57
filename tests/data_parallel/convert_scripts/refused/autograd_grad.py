"""Gradients by torch.autograd.grad, and steps that are written out."""

import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

model = nn.Linear(4, 1)
loader = DataLoader(TensorDataset(torch.randn(20, 4), torch.randn(20, 1)), batch_size=5)
for x, y in loader:
    loss = ((model(x) - y) ** 2).mean()
    gradients = torch.autograd.grad(loss, list(model.parameters()))
    with torch.no_grad():
        for p, g in zip(model.parameters(), gradients):
            p.sub_(0.1 * g)
print(loss.item())
