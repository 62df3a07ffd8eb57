"""Losses that are sums over the samples, divided by how many they are; squared errors written out."""

import torch
import torch.nn as nn
import torch.nn.functional as F
from torch.utils.data import DataLoader, TensorDataset

torch.manual_seed(9)
torch.set_default_dtype(torch.float64)
loader = DataLoader(TensorDataset(torch.randn(40, 3), torch.randn(40, 1)), batch_size=10, shuffle=True)
model = nn.Linear(3, 1)
optimizer = torch.optim.SGD(model.parameters(), lr=0.05)
criterion = nn.MSELoss(reduction="sum")
for x, y in loader:
    out = model(x)
    n = x.shape[0]
    loss = criterion(out, y) / n
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    print("divided", loss.item())
for x, y in loader:
    out = model(x)
    loss = 0.5 * ((out - y) ** 2).sum(dim=1).mean() + 0.1 * torch.mean(torch.abs(out))
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    print("by hand", loss.item())
total, count = 0.0, 0
for x, y in loader:
    losses = F.smooth_l1_loss(model(x), y, reduction="none")
    loss = losses.mean()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    total += losses.sum().item()
    count += losses.numel()
print("none", total / count, model.weight.sum().item())
