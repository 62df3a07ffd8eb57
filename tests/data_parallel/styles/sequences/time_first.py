"""Sequences stacked along the second dimension."""

import torch
import torch.nn as nn
import torch.nn.functional as F
from small_data import print_weights
from torch.utils.data import DataLoader


def collate(b):
    return torch.stack(b, dim=1)


S = torch.randint(0, 7, (44, 5))
e = nn.Embedding(7, 3)
r = nn.GRU(3, 4)
fc = nn.Linear(4, 7)
ps = [*e.parameters(), *r.parameters(), *fc.parameters()]
o = torch.optim.Adam(ps, 0.01)
for s in DataLoader(S, batch_size=8, collate_fn=collate):
    out, h = r(e(s[:-1]))
    lg = fc(out)
    loss = F.cross_entropy(lg.view(-1, 7), s[1:].view(-1))
    o.zero_grad()
    loss.backward()
    o.step()
    print("%.6f" % loss.item(), s.shape, s.size(1), (lg.argmax(-1) == s[1:]).sum().item(), lg.shape)
print_weights(e, r, fc)
