"""BatchNorm in two and in one dimension, and running statistics that an evaluation uses."""

import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

torch.manual_seed(0)
torch.set_default_dtype(torch.float64)
model = nn.Sequential(
    nn.Conv2d(3, 6, 3), nn.BatchNorm2d(6), nn.ReLU(), nn.Flatten(), nn.Linear(96, 8), nn.BatchNorm1d(8), nn.Linear(8, 1)
)
data = TensorDataset(torch.randn(40, 3, 6, 6), torch.randn(40, 1))
optimizer = torch.optim.SGD(model.parameters(), lr=0.05, momentum=0.9)
for _ in range(2):
    model.train()
    for inputs, targets in DataLoader(data, batch_size=8, shuffle=True):
        optimizer.zero_grad()
        loss = nn.functional.mse_loss(model(inputs), targets)
        loss.backward()
        optimizer.step()
        print("loss %.17g" % loss.item())
    model.eval()
    with torch.no_grad():
        batches = DataLoader(data, batch_size=10)
        print("test %.17g" % sum(nn.functional.mse_loss(model(a), b).item() for a, b in batches))
for value in model.state_dict().values():
    print("weights %.17g" % value.double().abs().sum().item())
