"""Whole numbers like the labels."""

import torch
import torch.nn.functional as F
from small_data import labelled, model, optimizer, print_weights

for x, y in labelled:
    e = torch.randint_like(y, 3)
    loss = F.cross_entropy(model(x + e[:, None]), y)
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    print("%.6f" % loss.item())
print_weights()
