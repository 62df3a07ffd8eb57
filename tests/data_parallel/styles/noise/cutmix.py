"""CutMix, in place."""

import torch
import torch.nn as nn
import torch.nn.functional as F
from small_data import Y, print_weights
from torch.utils.data import DataLoader, TensorDataset

img = torch.randn(45, 2, 4, 4)
cnn = nn.Sequential(nn.Conv2d(2, 3, 3), nn.Flatten(), nn.Linear(12, 3))
o = torch.optim.SGD(cnn.parameters(), 0.1)
for x, y in DataLoader(TensorDataset(img, Y), batch_size=8):
    r = torch.randperm(x.size()[0])
    x[:, :, 1:3, 0:2] = x[r, :, 1:3, 0:2]
    lam = 1 - 4 / (x.size()[-1] * x.size()[-2])
    out = cnn(x)
    loss = F.cross_entropy(out, y) * lam + F.cross_entropy(out, y[r]) * (1.0 - lam)
    o.zero_grad()
    loss.backward()
    o.step()
    print("%.6f %.6f" % (loss.item(), x.sum().item()))
print_weights(cnn)
