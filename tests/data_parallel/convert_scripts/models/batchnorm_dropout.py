"""BatchNorm and dropout: said, each with its line."""

import torch
import torch.nn as nn
from torch.utils.data import DataLoader, TensorDataset

torch.manual_seed(24)
torch.set_default_dtype(torch.float64)
model = nn.Sequential(
    nn.Linear(4, 8),
    nn.BatchNorm1d(8),
    nn.ReLU(),
    nn.Dropout(0.5),
    nn.Linear(8, 2),
)
optimizer = torch.optim.Adam(model.parameters(), lr=0.01)
loader = DataLoader(TensorDataset(torch.randn(32, 4), torch.randint(2, (32,))), batch_size=8, shuffle=True)
for epoch in range(2):
    model.train()
    for x, y in loader:
        loss = nn.functional.cross_entropy(model(x), y)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    model.eval()
    print("epoch", epoch, loss.item(), model(torch.ones(1, 4)).sum().item())
