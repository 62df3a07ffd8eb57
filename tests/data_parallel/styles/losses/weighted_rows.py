"""A loss weighted by constants."""

import torch
import torch.nn.functional as F
from small_data import labelled, model, optimizer, print_weights

for x, y in labelled:
    if len(x) < 8:
        continue
    w = torch.linspace(0, 1, 8)
    value = F.cross_entropy(model(x), y, reduction="none")
    loss = (value * w).sum() / w.sum()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    print("%.6f" % loss.item())
print_weights()
