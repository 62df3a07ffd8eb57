"""Mixed precision on whatever there is: autocast, GradScaler with unscale_ before clipping, two parameter groups."""

import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

torch.manual_seed(6)
device = "cuda" if torch.cuda.is_available() else "cpu"
model = nn.Sequential(nn.Linear(10, 32), nn.GELU(), nn.Linear(32, 4)).to(device)
optimizer = torch.optim.SGD(model.parameters(), lr=0.05, momentum=0.9, nesterov=True)
scaler = torch.amp.GradScaler(device, init_scale=2.0**10, growth_interval=4)
x = torch.randn(64, 10)
loader = DataLoader(TensorDataset(x, (x.sum(1) > 0).long() + (x[:, 0] > 0).long()), batch_size=16, shuffle=True)
for _ in range(3):
    model.train()
    for inputs, targets in loader:
        inputs, targets = inputs.to(device), targets.to(device)
        optimizer.zero_grad()
        with torch.autocast(device_type=device, dtype=torch.bfloat16):
            loss = nn.functional.cross_entropy(model(inputs), targets)
        scaler.scale(loss).backward()
        scaler.unscale_(optimizer)
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        scaler.step(optimizer)
        scaler.update()
        print("loss %.9g" % loss.item())
for parameter in model.parameters():
    print("weights %.9g" % parameter.abs().sum().item())
