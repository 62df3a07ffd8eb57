"""A view with the batch's size as a number."""

import torch.nn.functional as F
from small_data import X, Y, model, optimizer, print_weights
from torch.utils.data import DataLoader, TensorDataset

for x, y in DataLoader(TensorDataset(X[:40], Y[:40]), batch_size=8):
    x = x.view(8, -1)
    value = F.cross_entropy(model(x), y)
    optimizer.zero_grad()
    value.backward()
    optimizer.step()
    print("%.6f" % value.item())
print_weights()
