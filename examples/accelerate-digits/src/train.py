"""Recognise handwritten digits with accelerate: `Accelerator()` finds the ranks by itself, and no launcher is needed.

    worldsize run examples/accelerate-digits/job.yml -w 2x2

Rank 0 prints a line per epoch and `accuracy=…` on the images held back.
"""

from __future__ import annotations

import argparse
import gc
import os
import sys

import torch
import torch.distributed as dist
from accelerate import Accelerator
from accelerate.utils import set_seed
from sklearn.datasets import load_digits
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

SEED = 1
HELD_BACK = 360
BATCH = 64


def load() -> tuple[TensorDataset, TensorDataset]:
    """Images (64 values, 0 to 1) and their digits, in one order everywhere: to train with, and the last HELD_BACK."""
    digits = load_digits()
    order = torch.randperm(len(digits.target), generator=torch.Generator().manual_seed(SEED))
    images = torch.tensor(digits.data, dtype=torch.float32)[order] / 16
    labels = torch.tensor(digits.target)[order]
    count = len(labels) - HELD_BACK
    return TensorDataset(images[:count], labels[:count]), TensorDataset(images[count:], labels[count:])


def train(accelerator: Accelerator, epochs: int) -> float:
    set_seed(SEED)
    model = nn.Sequential(nn.Linear(64, 64), nn.ReLU(), nn.Linear(64, 10))
    optimizer = torch.optim.AdamW(model.parameters(), lr=0.01)
    known, held_back = load()
    loader = DataLoader(known, BATCH // accelerator.num_processes, shuffle=True)
    tests = DataLoader(held_back, BATCH)
    model, optimizer, loader, tests = accelerator.prepare(model, optimizer, loader, tests)
    for epoch in range(1, epochs + 1):
        for images, digits in loader:
            loss = nn.functional.cross_entropy(model(images), digits)
            optimizer.zero_grad()
            accelerator.backward(loss)
            optimizer.step()
        mean = accelerator.gather(loss.detach().reshape(1)).mean().item()
        if accelerator.is_main_process:
            print("epoch %2d/%d  last loss=%.4f" % (epoch, epochs, mean), flush=True)
    right = total = 0
    with torch.no_grad():
        for images, digits in tests:
            answers, truth = accelerator.gather_for_metrics((model(images).argmax(dim=1), digits))
            right, total = right + int((answers == truth).sum()), total + len(truth)
    return right / total


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--epochs", type=int, default=6)
    arguments = parser.parse_args()
    accelerator = Accelerator(cpu=not torch.cuda.is_available())
    result = train(accelerator, arguments.epochs)
    if accelerator.is_main_process:  # accelerator.print would do so once per node
        print("processes=%d" % accelerator.num_processes)
        print("accuracy=%.4f" % result, flush=True)
    # As in examples/digits: a process whose work is done may still be aborted by gloo.
    accelerator.free_memory()
    gc.collect()
    if dist.is_initialized():
        dist.destroy_process_group()
    sys.stdout.flush()
    os._exit(0)


if __name__ == "__main__":
    main()
