"""Bernoulli draws."""

import torch
import torch.nn.functional as F
from small_data import labelled, model, optimizer, print_weights

for x, y in labelled:
    m = torch.bernoulli(torch.full_like(x, 0.5))
    m2 = torch.empty_like(x).uniform_() > 0.5
    m3 = torch.empty(x.size(0), 1).bernoulli_(0.5)
    loss = F.cross_entropy(model(x * m * m2 * m3), y)
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    print("%.6f" % loss.item(), m.sum().item(), m2.sum().item(), m3.sum().item())
print_weights()
