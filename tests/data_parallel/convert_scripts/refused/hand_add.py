"""Steps that are written out with `data.add_`, with one tensor for the weights."""

import torch
from torch.utils.data import DataLoader, TensorDataset

w = torch.zeros(3, requires_grad=True)
x = torch.randn(30, 3)
for inputs, targets in DataLoader(TensorDataset(x, x.sum(1)), batch_size=10):
    loss = ((inputs @ w - targets) ** 2).mean()
    loss.backward()
    w.data.add_(w.grad, alpha=-0.1)
    w.grad.zero_()
print(loss.item())
