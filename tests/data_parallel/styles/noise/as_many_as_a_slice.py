"""Numbers drawn beside the batch, by chance as many as a slice has samples."""

import torch
import torch.nn as nn
import torch.nn.functional as F
from small_data import X, Y, print_weights
from torch.utils.data import DataLoader, TensorDataset

model = nn.Linear(X.size(1), 3)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
for x, y in DataLoader(TensorDataset(X, Y), batch_size=8):
    beside = torch.randn(4)
    again = torch.randn_like(beside)
    numbers = torch.randint(0, 9, (4, 2))
    loss = F.cross_entropy(model(x), y)
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    print("%.6f %.6f %.6f %d" % (loss.item(), beside.sum().item(), again.sum().item(), numbers.sum().item()))
print_weights(model)
