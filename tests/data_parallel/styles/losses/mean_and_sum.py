"""A mean, and a sum divided by a number."""

import torch
import torch.nn.functional as F
from small_data import labelled, model, optimizer, print_weights, regression

t = torch.tensor(2.0)
s = torch.tensor(3)
for x, y in labelled:
    loss = F.cross_entropy(model(x) / t, y) / s + F.mse_loss(regression(x)[:, 0], y.double(), reduction="sum") / 8
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    print("%.6f" % loss.item())
print_weights()
