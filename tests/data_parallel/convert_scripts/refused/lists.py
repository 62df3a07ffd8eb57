"""Samples in lists of tensors."""

import torch
import torch.nn as nn

X = [torch.randn(4) for _ in range(10)]
Y = [torch.randn(1) for _ in range(10)]
model = nn.Linear(4, 1)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
for epoch in range(2):
    for x, y in zip(X, Y):
        loss = nn.functional.mse_loss(model(x), y)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    print(loss.item())
