"""Losses that are classes of its own; a model that returns its loss; a regulariser of the weights."""

import torch
import torch.nn as nn
import torch.nn.functional as F
from torch.utils.data import DataLoader, TensorDataset

torch.manual_seed(11)
torch.set_default_dtype(torch.float64)


class FocalLoss(nn.Module):
    def __init__(self, gamma=2.0, reduction="mean"):
        super().__init__()
        self.gamma = gamma
        self.reduction = reduction

    def forward(self, inputs, targets):
        ce = F.cross_entropy(inputs, targets, reduction="none")
        pt = torch.exp(-ce)
        focal = (1 - pt) ** self.gamma * ce
        return focal.mean()


class Classifier(nn.Module):
    def __init__(self):
        super().__init__()
        self.net = nn.Sequential(nn.Linear(5, 6), nn.LayerNorm(6), nn.ReLU(), nn.Linear(6, 3))

    def forward(self, x, y=None):
        logits = self.net(x)
        if y is None:
            return logits
        return logits, F.cross_entropy(logits, y)


def l2(model):
    return sum(p.pow(2).sum() for p in model.parameters())


loader = DataLoader(TensorDataset(torch.randn(36, 5), torch.randint(3, (36,))), batch_size=6, shuffle=True)
model = Classifier()
criterion = FocalLoss()
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
for x, y in loader:
    optimizer.zero_grad()
    loss = criterion(model(x), y) + 1e-3 * l2(model)
    loss.backward()
    optimizer.step()
    print("focal", loss.item())
for x, y in loader:
    logits, loss = model(x, y)
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    print("own", loss.item(), (logits.argmax(-1) == y).sum().item())
