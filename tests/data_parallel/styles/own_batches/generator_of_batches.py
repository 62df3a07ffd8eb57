"""A generator of the script's own that yields batches of a drawn order."""

import torch
from torch import nn

torch.manual_seed(3)
torch.set_default_dtype(torch.float64)
X = torch.randn(96, 3)
Y = X.sum(1, keepdim=True)


def batches(X, Y, size):
    order = torch.randperm(len(X))
    for i in range(0, len(X), size):
        yield X[order[i : i + size]], Y[order[i : i + size]]


model = nn.Linear(3, 1)
optimizer = torch.optim.SGD(model.parameters(), 0.1)
for _ in range(3):
    total = 0
    for x, y in batches(X, Y, 16):
        loss = ((model(x) - y) ** 2).mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        total += loss.item()
    print("%.9f" % total)
print("weights %.9f" % model.weight.abs().sum().item())
