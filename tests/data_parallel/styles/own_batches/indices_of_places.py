"""Places computed from the drawn numbers: not seen to be a batch."""

import torch
from torch import nn

torch.manual_seed(3)
X = torch.randn(100, 3)
model = nn.Linear(3, 1)
optimizer = torch.optim.SGD(model.parameters(), 0.1)
for _ in range(5):
    starts = torch.randint(0, 95, (10,))
    x = X[starts[:, None] + torch.arange(5)]
    loss = (model(x) ** 2).mean()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
