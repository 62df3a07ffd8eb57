"""Labelled and unlabelled samples in one batch, in chunks."""

import torch
import torch.nn.functional as F
from small_data import X, Y, labelled, model, optimizer, print_weights
from torch.utils.data import DataLoader, TensorDataset

for (x, y), (u, _) in zip(labelled, DataLoader(TensorDataset(X, Y), batch_size=8), strict=False):
    b = x.shape[0]
    inp = torch.cat((x, u, u * 1.1))
    lg = model(inp)
    lx = lg[:b]
    lw, ls = lg[b:].chunk(2)
    del lg
    L = F.cross_entropy(lx, y)
    p = torch.softmax(lw.detach(), -1)
    mp, t = p.max(-1)
    m = mp.ge(0.4).double()
    Lu = (F.cross_entropy(ls, t, reduction="none") * m).mean()
    value = L + Lu
    optimizer.zero_grad()
    value.backward()
    optimizer.step()
    print("%.6f %.6f %.4f" % (L.item(), Lu.item(), m.mean().item()))
print_weights()
