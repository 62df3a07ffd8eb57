"""Gradients of several batches, clipped; a loss by levels, added up; two losses with factors."""

import torch
import torch.nn as nn
import torch.nn.functional as F
from torch.utils.data import DataLoader, TensorDataset

torch.manual_seed(8)
torch.set_default_dtype(torch.float64)
accumulation_steps = 2
loader = DataLoader(TensorDataset(torch.randn(48, 6), torch.randint(3, (48,)), torch.randn(48, 2)), 8, shuffle=True)
body = nn.Linear(6, 8)
heads = nn.ModuleList([nn.Linear(8, 3) for _ in range(2)])
side = nn.Linear(8, 2)
parameters = list(body.parameters()) + list(heads.parameters()) + list(side.parameters())
optimizer = torch.optim.Adam(parameters, lr=0.01)
optimizer.zero_grad()
lam = 0.5
for epoch in range(2):
    running = 0.0
    for i, (x, y, z) in enumerate(loader):
        h = torch.relu(body(x))
        loss = 0
        for head in heads:
            loss += F.cross_entropy(head(h), y)
        loss = loss + lam * F.mse_loss(side(h), z)
        loss = loss / accumulation_steps
        loss.backward()
        running += loss.item() * accumulation_steps
        if (i + 1) % accumulation_steps == 0:
            norm = nn.utils.clip_grad_norm_(parameters, 1.0)
            optimizer.step()
            optimizer.zero_grad()
            print("norm", norm.item())
    print("epoch", epoch, running / len(loader))
