"""Batches that are slices of tensors."""

import torch
import torch.nn as nn

X, Y = torch.randn(64, 4), torch.randn(64, 1)
model = nn.Linear(4, 1)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
for epoch in range(2):
    permutation = torch.randperm(X.size(0))
    for i in range(0, X.size(0), 16):
        indices = permutation[i : i + 16]
        loss = nn.functional.mse_loss(model(X[indices]), Y[indices])
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    print(loss.item())
