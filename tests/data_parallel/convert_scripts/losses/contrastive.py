"""InfoNCE between the samples of a batch: said."""

import torch
import torch.nn as nn
import torch.nn.functional as F
from torch.utils.data import DataLoader, TensorDataset

torch.manual_seed(35)
torch.set_default_dtype(torch.float64)
encoder = nn.Linear(6, 4)
optimizer = torch.optim.Adam(encoder.parameters(), lr=0.01)


def info_nce(z1, z2, temperature=0.5):
    z1, z2 = F.normalize(z1, dim=1), F.normalize(z2, dim=1)
    logits = torch.mm(z1, z2.t()) / temperature
    labels = torch.arange(z1.size(0))
    return F.cross_entropy(logits, labels)


for x1, x2 in DataLoader(TensorDataset(torch.randn(32, 6), torch.randn(32, 6)), batch_size=8, shuffle=True):
    loss = info_nce(encoder(x1), encoder(x2))
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    print("loss", loss.item())
