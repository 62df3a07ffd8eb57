"""Numbers that draw a data set, and an order that splits it: batches are the loader's."""

import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

torch.manual_seed(3)
torch.set_default_dtype(torch.float64)
X = torch.randn(96, 3)
Y = X.sum(1, keepdim=True)
chosen = torch.randint(0, 96, (64,))
X, Y = X[chosen], Y[chosen]
order = torch.randperm(64)
X, Y = X[order[:48]], Y[order[:48]]
model = nn.Linear(3, 1)
optimizer = torch.optim.SGD(model.parameters(), 0.1)
for _ in range(2):
    for x, y in DataLoader(TensorDataset(X, Y), 16, shuffle=True):
        loss = ((model(x) - y) ** 2).mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        print("%.9f" % loss.item())
