"""An order drawn for each epoch, and cut into batches; the last one is smaller."""

import torch
from torch import nn

torch.manual_seed(3)
torch.set_default_dtype(torch.float64)
X = torch.randn(100, 3)
Y = (X.sum(1) > 0).long()
model = nn.Linear(3, 2)
optimizer = torch.optim.SGD(model.parameters(), 0.1)
for epoch in range(3):
    permutation = torch.randperm(X.size(0))
    total = right = 0
    for i in range(0, X.size(0), 16):
        indices = permutation[i : i + 16]
        batch_x, batch_y = X[indices], Y[indices]
        out = model(batch_x)
        loss = nn.functional.cross_entropy(out, batch_y)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        total += loss.item() * batch_x.size(0)
        right += (out.argmax(1) == batch_y).sum().item()
    print("%d %.9f %d" % (epoch, total / len(X), right))
print("weights %.9f" % model.weight.abs().sum().item())
