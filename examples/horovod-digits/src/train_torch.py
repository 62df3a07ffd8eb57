"""Digits by Horovod and PyTorch: scikit-learn's 1,797 images of 8 × 8. Rank 0 prints `accuracy=…` on those held
back."""

from __future__ import annotations

import argparse

import horovod.torch as hvd
import torch
from sklearn.datasets import load_digits
from torch import nn

HELD_BACK = 360
BATCH_SIZE = 64


def main() -> None:
    parser = argparse.ArgumentParser(description="train on scikit-learn's digits with Horovod and PyTorch")
    parser.add_argument("--epochs", type=int, default=4)
    epochs = parser.parse_args().epochs
    hvd.init()
    torch.manual_seed(1)
    bunch = load_digits()
    order = torch.randperm(len(bunch.target))
    images = (torch.tensor(bunch.data, dtype=torch.float32) / 16)[order]
    digits = torch.tensor(bunch.target)[order]
    count = len(digits) - HELD_BACK
    model = nn.Sequential(nn.Linear(64, 64), nn.ReLU(), nn.Linear(64, 10))
    optimizer = torch.optim.Adam(model.parameters(), lr=0.01)
    optimizer = hvd.DistributedOptimizer(optimizer, named_parameters=model.named_parameters())
    hvd.broadcast_parameters(model.state_dict(), root_rank=0)
    for epoch in range(1, epochs + 1):
        shuffled = torch.randperm(count)
        for start in range(0, count - BATCH_SIZE + 1, BATCH_SIZE):
            mine = shuffled[start + hvd.rank() : start + BATCH_SIZE : hvd.size()]
            optimizer.zero_grad()
            loss = nn.functional.cross_entropy(model(images[mine]), digits[mine])
            loss.backward()
            optimizer.step()
        if hvd.rank() == 0:
            print("epoch %d/%d  loss=%.4f" % (epoch, epochs, loss.item()), flush=True)
    with torch.no_grad():
        right = (model(images[count:]).argmax(dim=1) == digits[count:]).float().mean()
    if hvd.rank() == 0:
        print("ranks=%d\naccuracy=%.4f" % (hvd.size(), right.item()), flush=True)
    hvd.shutdown()


if __name__ == "__main__":
    main()
