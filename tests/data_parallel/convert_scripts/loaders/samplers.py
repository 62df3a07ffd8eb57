"""Samplers of its own: weighted, in batches of one length, a subset; the evaluation has all samples."""

import random

import torch
from torch import nn
from torch.utils.data import DataLoader, Sampler, Subset, SubsetRandomSampler, TensorDataset, WeightedRandomSampler

torch.manual_seed(2)
random.seed(2)
torch.set_default_dtype(torch.float64)


class SortedBatches(Sampler):
    def __init__(self, lengths, size):
        self.lengths, self.size = lengths, size

    def __iter__(self):
        order = sorted(range(len(self.lengths)), key=lambda i: self.lengths[i])
        batches = [order[i : i + self.size] for i in range(0, len(order), self.size)]
        random.shuffle(batches)
        return iter(batches)

    def __len__(self):
        return len(self.lengths) // self.size


data = TensorDataset(torch.randn(64, 5), torch.randint(3, (64,)))
weighted = DataLoader(data, batch_size=8, sampler=WeightedRandomSampler(torch.rand(64), 32))
lengths = [random.randint(1, 9) for _ in range(64)]
sorted_batches = DataLoader(data, batch_sampler=SortedBatches(lengths, 8))
part = DataLoader(data, batch_size=4, sampler=SubsetRandomSampler(range(16)))
valid_loader = DataLoader(Subset(data, range(40, 63)), batch_size=7)
model = nn.Sequential(nn.Linear(5, 7), nn.ReLU(), nn.Linear(7, 3))
criterion = nn.CrossEntropyLoss()
optimizer = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9, nesterov=True)
for loader in (weighted, sorted_batches, part):
    for x, y in loader:
        optimizer.zero_grad()
        loss = criterion(model(x), y)
        loss.backward()
        optimizer.step()
        print("loss", loss.item())
    model.eval()
    seen = hits = 0
    with torch.no_grad():
        for x, y in valid_loader:
            hits += (model(x).argmax(1) == y).sum().item()
            seen += len(y)
    model.train()
    print("valid", hits, seen, hits / seen)
