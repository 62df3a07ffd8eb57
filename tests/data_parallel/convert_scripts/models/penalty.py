"""Adversarial inputs, a Jacobian's penalty by autograd.grad, a straight-through estimator of its own."""

import torch
import torch.nn as nn
import torch.nn.functional as F
from torch.utils.data import DataLoader, TensorDataset

torch.manual_seed(42)
torch.set_default_dtype(torch.float64)


class Step(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        return (x > 0).to(x.dtype)

    @staticmethod
    def backward(ctx, grad):
        return grad


net = nn.Sequential(nn.Linear(4, 8), nn.Tanh(), nn.Linear(8, 1))
optimizer = torch.optim.SGD(net.parameters(), lr=0.05)
loader = DataLoader(TensorDataset(torch.randn(32, 4), torch.randint(2, (32, 1)).double()), batch_size=8)
for x, y in loader:
    x.requires_grad_(True)
    out = net(x)
    (grads,) = torch.autograd.grad(out.sum(), x, create_graph=True)
    penalty = grads.pow(2).sum(1).mean()
    loss = F.binary_cross_entropy_with_logits(out, y) + 0.1 * penalty + 0.01 * Step.apply(out).mean()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    print("loss", loss.item())
