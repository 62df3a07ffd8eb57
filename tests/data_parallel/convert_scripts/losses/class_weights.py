"""Weights of classes: a mean that they weigh is said; one over all is not."""

import torch
import torch.nn as nn
from torch.utils.data import DataLoader, TensorDataset

torch.manual_seed(36)
torch.set_default_dtype(torch.float64)
model = nn.Linear(6, 3)
optimizer = torch.optim.Adam(model.parameters(), lr=0.01)
criterion = nn.CrossEntropyLoss(weight=torch.tensor([1.0, 2.0, 5.0]))
for x, y in DataLoader(TensorDataset(torch.randn(32, 6), torch.randint(3, (32,))), batch_size=8, shuffle=True):
    loss = criterion(model(x), y)
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    print("loss", loss.item())
