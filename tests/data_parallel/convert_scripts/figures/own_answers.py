"""Batches that are left out by chance, a limit of time and a file that ends the training: rank 0 decides."""

import os
import time

import torch
import torch.nn as nn
from torch.utils.data import DataLoader, TensorDataset

torch.manual_seed(22)
torch.set_default_dtype(torch.float64)
model = nn.Linear(4, 1)
optimizer = torch.optim.SGD(model.parameters(), lr=0.05)
loader = DataLoader(TensorDataset(torch.randn(64, 4), torch.randn(64, 1)), batch_size=4, shuffle=True)
start = time.time()
for epoch in range(2):
    for x, y in loader:
        if torch.rand(1) < 0.4:
            continue
        loss = ((model(x) - y) ** 2).mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        elapsed = time.time() - start
        if elapsed > 1000 or os.path.exists("stop"):
            break
        if time.time() >= start:
            print("loss", loss.item())
