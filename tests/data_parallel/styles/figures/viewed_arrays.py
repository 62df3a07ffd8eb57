"""What NumPy has made of a batch, viewed by the batch's sizes."""

import torch
import torch.nn.functional as F
from small_data import labelled, model, optimizer, print_weights

for x, y in labelled:
    doubled = torch.from_numpy(x.numpy() * 2)
    rows = doubled.view(x.size(0), -1)
    halves = doubled.reshape(len(x), 2, 3)
    flat = doubled.reshape(-1).view(len(x), 6)
    loss = F.cross_entropy(model(x + 0.1 * rows + 0.1 * halves.flatten(1) + flat), y)
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    print("%.6f" % loss.item(), tuple(rows.shape), tuple(halves.shape), "%.6f" % halves[:, 0].sum().item())
print_weights()
