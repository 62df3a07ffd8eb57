"""Two views through the model at once, taken apart by slices."""

import torch
import torch.nn.functional as F
from small_data import labelled, model, optimizer, print_weights

for x, y in labelled:
    n = x.size(0)
    out = model(torch.cat([x, x * 2]))
    loss = F.cross_entropy(out[:n], y) + F.cross_entropy(out[n:], y)
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    print("%.6f" % loss.item())
print_weights()
