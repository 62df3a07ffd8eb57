"""Conditions on the loss and on sizes: all ranks go the same way."""

import math
import sys

import torch
import torch.nn as nn
from torch.utils.data import DataLoader, TensorDataset

torch.manual_seed(21)
torch.set_default_dtype(torch.float64)
BATCH = 8
model = nn.Linear(4, 1)
optimizer = torch.optim.SGD(model.parameters(), lr=0.05)
loader = DataLoader(TensorDataset(torch.randn(46, 4), torch.randn(46, 1)), batch_size=BATCH, shuffle=True)
skipped = 0
best = float("inf")
for epoch in range(2):
    for x, y in loader:
        if x.size(0) != BATCH:
            skipped += 1
            continue
        loss = ((model(x) - y) ** 2).mean()
        if torch.isnan(loss) or not math.isfinite(loss.item()):
            sys.exit(1)
        if loss < best:
            best = loss.item()
        elif loss > 1.7:
            print("large", loss.item())
            break
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    print("epoch", epoch, best, skipped)
