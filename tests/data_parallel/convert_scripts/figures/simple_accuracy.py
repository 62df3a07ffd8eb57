"""Accuracies by a function of its own, losses without `item`, confusion counts, a bar."""

import torch
import torch.nn as nn
from torch.utils.data import DataLoader, TensorDataset

try:
    from tqdm import tqdm
except ImportError:

    def tqdm(iterable, **options):
        return iterable


torch.manual_seed(17)
torch.set_default_dtype(torch.float64)


def accuracy(output, target):
    predicted = output.argmax(dim=1)
    return (predicted == target).sum().item() / target.size(0)


def binary_accuracy(preds, y):
    correct = (preds.argmax(1) == y).float()
    return correct.sum() / len(correct)


model = nn.Linear(4, 3)
criterion = nn.CrossEntropyLoss()
optimizer = torch.optim.Adam(model.parameters(), lr=0.05)
loader = DataLoader(TensorDataset(torch.randn(40, 4), torch.randint(3, (40,))), batch_size=8, shuffle=True)
history = {"loss": [], "acc": []}
for epoch in range(2):
    total_loss = 0
    total_acc = 0.0
    hits, seen = 0, 0
    bar = tqdm(loader)
    for x, y in bar:
        out = model(x)
        loss = criterion(out, y)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        total_loss += loss
        total_acc += accuracy(out, y)
        acc = binary_accuracy(out, y)
        hits += (out.argmax(1) == y).sum().item()
        seen += y.size(0)
        history["loss"].append(loss.item())
        history["acc"].append(acc.item())
    print(f"epoch {epoch} {total_loss / len(loader):.8f} {total_acc / len(loader):.6f} {hits / seen:.6f} {seen}")
print(history["loss"], history["acc"])
