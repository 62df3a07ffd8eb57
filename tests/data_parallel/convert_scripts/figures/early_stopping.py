"""Early stopping on the validation's loss, a plateau scheduler, the best checkpoint loaded again."""

import os

import torch
import torch.nn as nn
from torch.utils.data import DataLoader, TensorDataset

torch.manual_seed(19)
torch.set_default_dtype(torch.float64)


class EarlyStopping:
    def __init__(self, patience=2):
        self.patience, self.counter, self.best, self.early_stop = patience, 0, None, False

    def __call__(self, val_loss, model):
        if self.best is None or val_loss < self.best:
            self.best, self.counter = val_loss, 0
            torch.save(model.state_dict(), "checkpoint.pt")
        else:
            self.counter += 1
            self.early_stop = self.counter >= self.patience


model = nn.Sequential(nn.Linear(4, 16), nn.Tanh(), nn.Linear(16, 1))
optimizer = torch.optim.Adam(model.parameters(), lr=0.1)
scheduler = torch.optim.lr_scheduler.ReduceLROnPlateau(optimizer, patience=1)
criterion = nn.MSELoss()
train_loader = DataLoader(TensorDataset(torch.randn(24, 4), torch.randn(24, 1)), batch_size=6, shuffle=True)
valid_loader = DataLoader(TensorDataset(torch.randn(15, 4), torch.randn(15, 1)), batch_size=6)
early_stopping = EarlyStopping()
for epoch in range(1, 12):
    model.train()
    train_losses, valid_losses = [], []
    for data, target in train_loader:
        optimizer.zero_grad()
        loss = criterion(model(data), target)
        loss.backward()
        optimizer.step()
        train_losses.append(loss.item())
    model.eval()
    for data, target in valid_loader:
        loss = criterion(model(data), target)
        valid_losses.append(loss.item())
    valid_loss = sum(valid_losses) / len(valid_losses)
    scheduler.step(valid_loss)
    print(epoch, sum(train_losses) / len(train_losses), valid_loss, optimizer.param_groups[0]["lr"])
    early_stopping(valid_loss, model)
    if early_stopping.early_stop:
        print("Early stopping")
        break
if os.path.exists("checkpoint.pt"):
    model.load_state_dict(torch.load("checkpoint.pt"))
print(sum(p.abs().sum().item() for p in model.parameters()))
