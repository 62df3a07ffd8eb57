"""A supervised contrastive loss."""

import torch
import torch.nn.functional as F
from small_data import X, Y, model, optimizer, print_weights
from torch.utils.data import DataLoader, TensorDataset

for x, y in DataLoader(TensorDataset(X[:40], Y[:40]), batch_size=8):
    im = torch.cat([x, x * 1.1], 0)
    bsz = y.shape[0]
    f = F.normalize(model(im), dim=1)
    f1, f2 = torch.split(f, [bsz, bsz], dim=0)
    f = torch.cat([f1.unsqueeze(1), f2.unsqueeze(1)], 1)
    m = torch.eq(y.view(-1, 1), y.view(-1, 1).T).double()
    cf = torch.cat(torch.unbind(f, 1), 0)
    d = cf @ cf.T / 0.5
    mx, _ = d.max(1, keepdim=True)
    lg = d - mx.detach()
    m = m.repeat(2, 2)
    lm = torch.scatter(torch.ones_like(m), 1, torch.arange(bsz * 2).view(-1, 1), 0)
    m = m * lm
    lp = lg - torch.log((lg.exp() * lm).sum(1, keepdim=True))
    loss = -((m * lp).sum(1) / m.sum(1)).mean()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    print("%.6f" % loss.item())
print_weights()
