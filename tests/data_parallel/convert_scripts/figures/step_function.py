"""A step that returns its loss, its figures and its sizes; a progress bar's postfix; a mean of a list of tensors."""

import torch
import torch.nn as nn
from torch.utils.data import DataLoader, TensorDataset

torch.manual_seed(39)
torch.set_default_dtype(torch.float64)


def train_step(model, x, y, optimizer, loss_fn):
    model.train()
    logits = model(x)
    loss = loss_fn(logits, y)
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    n_correct = (torch.argmax(logits, dim=1) == y).sum().item()
    return loss, n_correct, len(x)


def train_epoch(model, loader, optimizer, loss_fn):
    epoch_loss, epoch_correct, epoch_count = [], 0, 0
    for x, y in loader:
        loss, n_correct, count = train_step(model, x, y, optimizer, loss_fn)
        epoch_loss.append(loss.detach())
        epoch_correct += n_correct
        epoch_count += count
    return torch.stack(epoch_loss).mean().item(), epoch_correct / epoch_count


model = nn.Linear(4, 3)
optimizer = torch.optim.SGD(model.parameters(), lr=0.2)
loader = DataLoader(TensorDataset(torch.randn(24, 4), torch.randint(3, (24,))), batch_size=6, shuffle=True)
for epoch in range(2):
    print(epoch, *train_epoch(model, loader, optimizer, nn.CrossEntropyLoss()))
