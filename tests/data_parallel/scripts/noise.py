"""Noise of every kind, drawn for the batch: by sizes, by a size, like a tensor, in place, around means; numpy's too."""

import numpy as np
import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

torch.manual_seed(3)
np.random.seed(3)
torch.set_default_dtype(torch.float64)
model = nn.Linear(3, 1)
optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
loader = DataLoader(TensorDataset(torch.randn(32, 3)), batch_size=8, shuffle=True)


def noise(x):
    shape = (len(x), 3)
    yield torch.randn(len(x), 3)
    yield torch.rand(shape)
    yield torch.randn_like(x)
    yield torch.randint_like(x, 4)
    yield torch.empty_like(x).normal_()
    yield torch.empty(shape).uniform_(-1, 1)
    yield torch.normal(0.0, 2.0, shape)
    yield torch.normal(0.0, 2.0, size=shape)
    yield torch.normal(x, x.abs())
    yield torch.randint(-2, 3, shape).double()
    yield torch.randint(4, size=shape).double()
    yield torch.from_numpy(np.random.normal(0, 1, shape))
    yield torch.from_numpy(np.random.uniform(size=shape))
    yield torch.from_numpy(np.random.randn(len(x), 3))


for _ in range(2):
    for (x,) in loader:
        scale = torch.randperm(5)[0] + torch.rand(1).item() + np.random.rand() + torch.rand(())
        loss = (model(x + sum(noise(x)) + scale) ** 2).mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        print("loss %.17g" % loss.item())
for parameter in model.parameters():
    print("weights %.17g" % parameter.abs().sum().item())
