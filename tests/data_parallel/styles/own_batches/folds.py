"""A data set that is drawn for each fold, inside the loop that trains."""

import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

torch.manual_seed(3)
X = torch.randn(96, 3)
for _ in range(2):
    order = torch.randperm(len(X))
    train = order[:80]
    model = nn.Linear(3, 1)
    optimizer = torch.optim.SGD(model.parameters(), 0.1)
    for (x,) in DataLoader(TensorDataset(X[train]), 16):
        loss = (model(x) ** 2).mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
