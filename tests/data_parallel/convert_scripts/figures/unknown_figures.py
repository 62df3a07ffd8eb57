"""Figures that are of a rank's part, and said: predictions that are collected, a confusion matrix, a maximum."""

import torch
import torch.nn as nn
from torch.utils.data import DataLoader, TensorDataset

torch.manual_seed(18)
torch.set_default_dtype(torch.float64)
model = nn.Linear(4, 3)
criterion = nn.CrossEntropyLoss()
optimizer = torch.optim.Adam(model.parameters(), lr=0.05)
loader = DataLoader(TensorDataset(torch.randn(40, 4), torch.randint(3, (40,))), batch_size=8, shuffle=True)
predictions = []
confusion = torch.zeros(3, 3)
for x, y in loader:
    out = model(x)
    loss = criterion(out, y)
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    predictions.extend(out.argmax(1).tolist())
    for t, p in zip(y, out.argmax(1)):
        confusion[t, p] += 1
    print("largest", out.max().item(), "loss", loss.item())
print(confusion.tolist(), len(predictions))
