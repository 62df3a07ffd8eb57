"""A root of a mean is not the mean of the roots."""

import torch
import torch.nn as nn
from torch.utils.data import DataLoader, TensorDataset

torch.manual_seed(13)
torch.set_default_dtype(torch.float64)
loader = DataLoader(TensorDataset(torch.randn(24, 5), torch.randn(24, 1)), batch_size=8, shuffle=True)
model = nn.Linear(5, 1)
optimizer = torch.optim.Adam(model.parameters(), lr=0.02)
for x, y in loader:
    loss = torch.sqrt(nn.functional.mse_loss(model(x), y))
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    print("loss", loss.item())
