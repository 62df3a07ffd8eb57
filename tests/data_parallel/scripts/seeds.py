"""Dropout and BatchNorm: one model after another, each with its seed; what they end with, by seed."""

import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

torch.manual_seed(0)
x = torch.randn(256, 8)
y = (x[:, :1] * x[:, 1:2] + 0.1 * torch.randn(256, 1)).tanh()
train_set, test_set = TensorDataset(x[:192], y[:192]), TensorDataset(x[192:], y[192:])


def train(seed):
    torch.manual_seed(seed)
    model = nn.Sequential(
        nn.Linear(8, 32), nn.BatchNorm1d(32), nn.ReLU(), nn.Dropout(0.2), nn.Linear(32, 32), nn.ReLU(), nn.Linear(32, 1)
    )
    optimizer = torch.optim.Adam(model.parameters(), lr=5e-3)
    loader = DataLoader(train_set, batch_size=32, shuffle=True)
    for _ in range(6):
        model.train()
        for inputs, targets in loader:
            optimizer.zero_grad()
            nn.functional.mse_loss(model(inputs), targets).backward()
            optimizer.step()
    model.eval()
    with torch.no_grad():
        return sum(nn.functional.mse_loss(model(a), b).item() for a, b in DataLoader(test_set, batch_size=64))


for seed in range(1, 13):
    print("test %d %.6f" % (seed, train(seed)))
