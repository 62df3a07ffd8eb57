"""Figures made in two steps, and taken out of what a function returns."""

import torch
import torch.nn as nn
from torch.utils.data import DataLoader, TensorDataset

torch.manual_seed(23)
torch.set_default_dtype(torch.float64)

model = nn.Linear(4, 3)
criterion = nn.CrossEntropyLoss()
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
loader = DataLoader(TensorDataset(torch.randn(40, 4), torch.randint(3, (40,))), batch_size=8, shuffle=True)


def step(x, y):
    output = model(x)
    loss = criterion(output, y)
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    return {"loss": loss.item(), "n": len(y), "hits": (output.argmax(1) == y).sum()}


total, seen, hits = 0.0, 0, 0
for x, y in loader:
    output = model(x)
    loss = criterion(output, y)
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    right = (output.argmax(1) == y).sum().item()
    accuracy = right / len(y)
    part = loss.item() * len(y)
    total += part
    print(right / len(y), 100 * accuracy, part)
    done = step(x, y)
    seen += done["n"]
    hits += done["hits"].item()
    print(done["loss"])
print(total / 40, seen, hits)
