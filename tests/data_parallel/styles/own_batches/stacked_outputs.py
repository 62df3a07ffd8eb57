"""As many outputs stacked as numbers were drawn: they are no batch."""

import torch
from torch import nn

torch.manual_seed(3)
layers = nn.ModuleList(nn.Linear(3, 1) for _ in range(4))
optimizer = torch.optim.SGD(layers.parameters(), 0.1)
X = torch.randn(4, 3)
for _ in range(5):
    chosen = torch.randint(4, (4,))
    out = torch.stack([layer(X[i]) for i, layer in zip(chosen, layers, strict=True)])
    loss = (out**2).mean()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
