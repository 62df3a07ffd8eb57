"""Sequences with time first, and one label each."""

import torch
import torch.nn as nn
import torch.nn.functional as F
from small_data import Y, print_weights
from torch.utils.data import DataLoader, TensorDataset


def collate(b):
    return torch.stack([s for s, _ in b], dim=1), torch.tensor([value for _, value in b])


S = torch.randn(44, 5, 3)
r = nn.GRU(3, 4)
fc = nn.Linear(4, 3)
ps = [*r.parameters(), *fc.parameters()]
o = torch.optim.Adam(ps, 0.01)
for s, y in DataLoader(TensorDataset(S, Y[:44]), batch_size=8, collate_fn=collate):
    out, h = r(s)
    lg = fc(h.squeeze(0))
    loss = F.cross_entropy(lg, y)
    o.zero_grad()
    loss.backward()
    o.step()
    print("%.6f" % loss.item(), s.shape, s.size(1), (lg.argmax(1) == y).sum().item(), "%.6f" % s.sum().item())
print_weights(r, fc)
