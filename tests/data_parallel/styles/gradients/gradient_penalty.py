"""The gradient penalty of WGAN-GP."""

import torch
import torch.nn as nn
from small_data import labelled, print_weights

D = nn.Sequential(nn.Linear(6, 4), nn.Tanh(), nn.Linear(4, 1))
G = nn.Linear(3, 6)
o = torch.optim.Adam(D.parameters(), 0.01)
for x, _y in labelled:
    z = torch.randn(x.size(0), 3)
    f = G(z).detach()
    a = torch.rand(x.size(0), 1)
    xi = (a * x + (1 - a) * f).requires_grad_(True)
    d = D(xi)
    g = torch.autograd.grad(d, xi, torch.ones_like(d), create_graph=True, retain_graph=True)[0]
    gp = ((g.view(g.size(0), -1).norm(2, dim=1) - 1) ** 2).mean()
    loss = -D(x).mean() + D(f).mean() + 10 * gp
    o.zero_grad()
    loss.backward()
    o.step()
    print("%.6f %.6f" % (loss.item(), gp.item()))
print_weights(D)
