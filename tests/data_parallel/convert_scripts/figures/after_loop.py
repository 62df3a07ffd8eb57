"""Figures of the last batch after the loop, a running mean, a variance that is not all ranks'."""

import torch
import torch.nn as nn
from torch.utils.data import DataLoader, TensorDataset

torch.manual_seed(43)
torch.set_default_dtype(torch.float64)
model = nn.Linear(4, 1)
optimizer = torch.optim.SGD(model.parameters(), lr=0.05)
loader = DataLoader(TensorDataset(torch.randn(32, 4), torch.randn(32, 1)), batch_size=8, shuffle=True)
running = None


def report(name, value):
    print(name, "%.10f" % value)


for epoch in range(2):
    for x, y in loader:
        prediction = model(x)
        loss = (prediction - y).abs().mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        running = loss.item() if running is None else 0.9 * running + 0.1 * loss.item()
        report("batch", loss)
    mae = torch.mean(torch.abs(prediction - y))
    report("last", mae)
    print("running", running, "loss", loss.item(), "error", (prediction - y).pow(2).mean().item())
print("spread", prediction.std().item())
