"""A model that returns the size of its input."""

import torch
import torch.nn as nn
import torch.nn.functional as F
from small_data import labelled, print_weights


class M(nn.Module):
    def __init__(self):
        super().__init__()
        self.a = nn.Linear(6, 3)

    def forward(self, x, y):
        lg = self.a(x)
        return F.cross_entropy(lg, y), x.size(0), {"n": len(x)}


m = M()
o = torch.optim.SGD(m.parameters(), 0.1)
tot = n = 0
for x, y in labelled:
    value, k, d = m(x, y)
    o.zero_grad()
    value.backward()
    o.step()
    tot += value.item() * k
    n += k
    print("%.6f %d %d" % (tot / n, n, d["n"]))
print_weights(m)
