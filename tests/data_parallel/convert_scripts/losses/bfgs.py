"""LBFGS, whose closure gives the loss."""

import torch
import torch.nn as nn
from torch.utils.data import DataLoader, TensorDataset

torch.manual_seed(12)
torch.set_default_dtype(torch.float64)
x = torch.randn(24, 3)
loader = DataLoader(TensorDataset(x, x.sum(1, keepdim=True).sin()), batch_size=12)
model = nn.Sequential(nn.Linear(3, 4), nn.Tanh(), nn.Linear(4, 1))
criterion = nn.MSELoss()
optimizer = torch.optim.LBFGS(model.parameters(), lr=0.5, max_iter=5, line_search_fn="strong_wolfe")
for _ in range(2):
    for inputs, targets in loader:

        def closure():
            optimizer.zero_grad()
            loss = criterion(model(inputs), targets)
            loss.backward()
            return loss

        value = optimizer.step(closure)
        print("step", value.item())
print(model[0].weight.sum().item())
