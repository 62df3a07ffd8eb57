"""Normalised outputs without gradients."""

import torch
import torch.nn.functional as F
from small_data import X, Y, model, optimizer
from torch.utils.data import DataLoader, TensorDataset

for x, y in DataLoader(TensorDataset(X[:40], Y[:40]), batch_size=8):
    with torch.no_grad():
        k = model(x * 1.01)
        k2 = F.normalize(k, dim=1)
    print(k.shape, k2.shape, "%.6f %.6f" % (k.sum().item(), k2.sum().item()))
    loss = F.cross_entropy(model(x), y)
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
