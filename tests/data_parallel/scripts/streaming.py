"""An iterable data set, batches in mappings, a progress bar's generator around the loader, early stopping."""

import torch
from torch import nn
from torch.utils.data import DataLoader, IterableDataset

torch.set_default_dtype(torch.float64)


class Stream(IterableDataset):
    def __iter__(self):
        generator = torch.Generator().manual_seed(0)
        for number in range(44):
            x = torch.randn(4, generator=generator)
            yield {"x": x, "y": x.prod().reshape(1), "name": "sample-%d" % number}


def progress(batches):
    for number, batch in enumerate(batches):
        yield batch
        if number % 5 == 0:
            print("batch %d" % number)


def step(model, optimizer, batch):
    loss = nn.functional.smooth_l1_loss(model(batch["x"]), batch["y"])
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    return loss


def main():
    torch.manual_seed(12)
    model = nn.Sequential(nn.Linear(4, 12), nn.SiLU(), nn.Linear(12, 1))
    optimizer = torch.optim.NAdam(model.parameters(), lr=0.02)
    best, worse = float("inf"), 0
    for epoch in range(6):
        total = 0.0
        for batch in progress(DataLoader(Stream(), batch_size=8)):
            total += step(model, optimizer, batch).item()
        print("loss %d %.17g" % (epoch, total))
        if total > best:
            worse += 1
            if worse > 1:
                break
        best = min(best, total)
    for parameter in model.parameters():
        print("weights %.17g" % parameter.abs().sum().item())


main()
