"""SimCLR's loss."""

import torch
import torch.nn as nn
import torch.nn.functional as F
from small_data import labelled, print_weights

enc = nn.Linear(6, 5)
o = torch.optim.SGD(enc.parameters(), 0.1)
for x, _ in labelled:
    v1, v2 = x + 0.1 * torch.randn_like(x), x + 0.1 * torch.randn_like(x)
    f = F.normalize(enc(torch.cat([v1, v2], 0)), dim=1)
    n = x.size(0)
    sim = f @ f.t() / 0.5
    sim = sim.masked_fill(torch.eye(2 * n, dtype=torch.bool), -1e9)
    tgt = torch.cat([torch.arange(n) + n, torch.arange(n)])
    loss = F.cross_entropy(sim, tgt)
    o.zero_grad()
    loss.backward()
    o.step()
    print("%.6f" % loss.item())
print_weights(enc)
