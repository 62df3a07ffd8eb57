"""Regression in float64: a plain loop at the module's level, shuffling, clipping, a last batch that does not divide."""

import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

torch.manual_seed(0)
torch.set_default_dtype(torch.float64)
x = torch.randn(70, 6)
y = x @ torch.randn(6, 1) + 0.1 * torch.randn(70, 1)
model = nn.Sequential(nn.Linear(6, 16), nn.Tanh(), nn.Linear(16, 1))
optimizer = torch.optim.AdamW(model.parameters(), lr=1e-2)
loader = DataLoader(TensorDataset(x, y), batch_size=16, shuffle=True)
test = DataLoader(TensorDataset(x, y), batch_size=32)
for _ in range(3):
    model.train()
    for a, b in loader:
        optimizer.zero_grad()
        loss = nn.functional.mse_loss(model(a), b)
        loss.backward()
        nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        print("loss %.17g" % loss.item())
    model.eval()
    with torch.no_grad():
        total = sum(nn.functional.mse_loss(model(a), b, reduction="sum").item() for a, b in test)
    print("test %.17g" % (total / 70))
for parameter in model.parameters():
    print("weights %.17g" % parameter.abs().sum().item())
