"""Autocast and a GradScaler, clipping between; devices by number."""

import os

import torch
import torch.nn as nn
from torch.utils.data import DataLoader, TensorDataset

torch.manual_seed(25)
os.environ["CUDA_VISIBLE_DEVICES"] = "0"
use_cuda = torch.cuda.is_available()
gpu = 0
device = torch.device(f"cuda:{gpu}" if use_cuda else "cpu")
model = nn.Linear(4, 2).to(device)
if use_cuda:
    torch.cuda.set_device(gpu)
    model = model.cuda(0)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
scaler = torch.cuda.amp.GradScaler(enabled=use_cuda)
loader = DataLoader(TensorDataset(torch.randn(32, 4), torch.randint(2, (32,))), batch_size=8, shuffle=True)
for x, y in loader:
    x, y = x.to(device, non_blocking=True), y.to(device, non_blocking=True)
    with torch.autocast(device.type, enabled=use_cuda):
        loss = nn.functional.cross_entropy(model(x), y)
    optimizer.zero_grad()
    scaler.scale(loss).backward()
    scaler.unscale_(optimizer)
    torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
    scaler.step(optimizer)
    scaler.update()
    print("loss %.5f" % loss.item())
