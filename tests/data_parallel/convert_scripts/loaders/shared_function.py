"""One function for training and evaluation, told apart by its optimizer; a scheduler by steps; workers of a loader."""

import torch
import torch.nn as nn
from torch.utils.data import DataLoader, TensorDataset

torch.manual_seed(30)
torch.set_default_dtype(torch.float64)


def run(model, loader, criterion, optimizer=None, scheduler=None):
    is_train = optimizer is not None
    model.train() if is_train else model.eval()
    losses, correct = [], 0
    for batch in loader:
        x, y = batch
        out = model(x)
        loss = criterion(out, y)
        if is_train:
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            if scheduler is not None:
                scheduler.step()
        losses.append(loss.detach().cpu().numpy().item())
        correct += (out.max(1)[1] == y).sum().item()
    return sum(losses) / len(losses), correct / len(loader.dataset)


model = nn.Linear(4, 3)
criterion = nn.CrossEntropyLoss()
train_loader = DataLoader(TensorDataset(torch.randn(36, 4), torch.randint(3, (36,))), batch_size=6, shuffle=True)
test_loader = DataLoader(TensorDataset(torch.randn(16, 4), torch.randint(3, (16,))), batch_size=4)
optimizer = torch.optim.Adam(model.parameters(), lr=0.05)
scheduler = torch.optim.lr_scheduler.LambdaLR(optimizer, lambda step: min(1.0, (step + 1) / len(train_loader)))
for epoch in range(2):
    print("train", *run(model, train_loader, criterion, optimizer, scheduler))
    print("test", *run(model, test_loader, criterion))
