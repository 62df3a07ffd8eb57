"""Weights of positive targets, of losses by themselves, and label smoothing: means over the samples."""

import torch
import torch.nn as nn
import torch.nn.functional as F
from torch.utils.data import DataLoader, TensorDataset

torch.manual_seed(37)
torch.set_default_dtype(torch.float64)
model = nn.Linear(6, 3)
optimizer = torch.optim.Adam(model.parameters(), lr=0.01)
criterion = nn.BCEWithLogitsLoss(pos_weight=torch.tensor([1.0, 2.0, 3.0]))
mse = nn.MSELoss(reduction="none")
loader = DataLoader(TensorDataset(torch.randn(32, 6), torch.randint(2, (32, 3)).double(), torch.rand(32)), batch_size=8)
for x, y, w in loader:
    outputs = model(x)
    loss = criterion(outputs, y)
    loss += (mse(outputs, y).mean(dim=1) * w).mean()
    loss += F.kl_div(F.log_softmax(outputs, dim=1), F.softmax(y, dim=1), reduction="batchmean")
    loss += nn.TripletMarginLoss(margin=1.0)(outputs, y, y.flip(1))
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    print("loss", loss.item(), ((outputs > 0) == (y > 0.5)).all(dim=1).double().mean().item())
