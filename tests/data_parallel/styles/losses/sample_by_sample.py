"""A loss of single samples."""

import torch.nn.functional as F
from small_data import labelled, model, optimizer, print_weights

for x, y in labelled:
    out = model(x)
    loss = 0
    for i in range(x.size(0)):
        loss = loss + F.cross_entropy(out[i : i + 1], y[i : i + 1])
    loss = loss / x.size(0)
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    print("%.6f" % loss.item())
print_weights()
