"""Experts that only some samples use, reentrant checkpointing, DataParallel, a weighted sampler, penalties."""

import torch
from torch import nn
from torch.utils.checkpoint import checkpoint
from torch.utils.data import DataLoader, TensorDataset, WeightedRandomSampler, random_split

torch.manual_seed(0)
torch.set_default_dtype(torch.float64)


class Mixture(nn.Module):
    def __init__(self):
        super().__init__()
        self.inside = nn.Linear(4, 8)
        self.shared = nn.Linear(8, 8)
        self.outside = nn.Linear(8, 1)
        self.experts = nn.ModuleList(nn.Linear(8, 8) for _ in range(3))

    def forward(self, x):
        hidden = checkpoint(self.shared, torch.tanh(self.inside(x)), use_reentrant=True)
        which = (x[:, 0] > 0).long() + (x[:, 1] > 1.2).long()
        out = torch.zeros_like(hidden)
        for number, expert in enumerate(self.experts):
            rows = which == number
            if rows.any():
                out[rows] = expert(hidden[rows])
        return self.outside(out)


model = nn.DataParallel(Mixture())
train_set, test_set = random_split(TensorDataset(torch.randn(96, 4), torch.randn(96, 1)), [64, 32])
sampler = WeightedRandomSampler(torch.rand(64), 64)
loader = DataLoader(train_set, batch_size=8, sampler=sampler, drop_last=True)
optimizer = torch.optim.AdamW(model.parameters(), lr=3e-3)
best = None
for _ in range(2):
    model.train()
    for inputs, targets in loader:
        loss = nn.functional.huber_loss(model(inputs), targets)
        loss = loss + 1e-3 * sum(weights.pow(2).sum() for weights in model.parameters())
        penalty = sum(weights.abs().sum() for weights in model.parameters())
        (loss + 1e-4 * penalty).backward()
        nn.utils.clip_grad_value_(model.parameters(), 0.5)
        optimizer.step()
        optimizer.zero_grad()
        print("loss %.17g" % loss.item())
    with torch.no_grad():
        model.eval()
        errors = torch.cat([model(inputs) - targets for inputs, targets in DataLoader(test_set, batch_size=16)])
    print("test %.17g" % errors.pow(2).mean().item())
    if best is None or errors.pow(2).mean() < best:
        best = errors.pow(2).mean()
        torch.save(model.state_dict(), "best.pt")
model.load_state_dict(torch.load("best.pt"))
for parameter in model.parameters():
    print("weights %.17g" % parameter.abs().sum().item())
