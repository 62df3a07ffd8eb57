"""MoCo's queue of keys."""

import torch
import torch.nn.functional as F
from small_data import X, Y, model, optimizer, print_weights
from torch.utils.data import DataLoader, TensorDataset

q = F.normalize(torch.randn(16, 3), dim=1)
ptr = 0
o = optimizer
for x, _y in DataLoader(TensorDataset(X[:40], Y[:40]), batch_size=8):
    f = F.normalize(model(x), dim=1)
    with torch.no_grad():
        k = F.normalize(model(x * 1.01), dim=1)
    lp = torch.einsum("nc,nc->n", [f, k]).unsqueeze(-1)
    ln = torch.einsum("nc,kc->nk", [f, q.clone().detach()])
    lg = torch.cat([lp, ln], 1) / 0.5
    lab = torch.zeros(lg.shape[0], dtype=torch.long)
    loss = F.cross_entropy(lg, lab)
    o.zero_grad()
    loss.backward()
    o.step()
    bs = k.shape[0]
    q[ptr : ptr + bs] = k
    ptr = (ptr + bs) % 16
    print("%.6f %.6f %d" % (loss.item(), q.sum().item(), ptr))
print_weights()
