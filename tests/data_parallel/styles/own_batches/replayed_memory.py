"""Transitions of a memory, by drawn numbers that have become a list."""

import torch
from torch import nn

torch.manual_seed(3)
torch.set_default_dtype(torch.float64)
memory = [(torch.randn(4), torch.randn(1)) for _ in range(60)]
net = nn.Sequential(nn.Linear(4, 8), nn.ReLU(), nn.Linear(8, 1))
optimizer = torch.optim.Adam(net.parameters(), 1e-2)


def learn():
    chosen = torch.randint(0, len(memory), (16,)).tolist()
    states = torch.stack([memory[i][0] for i in chosen])
    rewards = torch.stack([memory[i][1] for i in chosen])
    loss = nn.functional.smooth_l1_loss(net(states), rewards)
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    return loss.item()


for _ in range(8):
    memory.append((torch.randn(4), torch.randn(1)))
    print("%.9f" % learn())
