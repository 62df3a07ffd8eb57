"""Digits with DistributedDataParallel, in a script that was written for mpirun: rank and world size come from its
variables. scikit-learn's 1,797 images of 8 × 8.

    worldsize run examples/mpi-torch/job.yml -w 2x2

Rank 0 prints a line per epoch and `accuracy=…` on the images held back.
"""

from __future__ import annotations

import argparse
import gc
import os
import sys

import torch
import torch.distributed as dist
from sklearn.datasets import load_digits
from torch import nn
from torch.nn.parallel import DistributedDataParallel

HELD_BACK = 360
BATCH_SIZE = 64


def join() -> torch.device:
    """The process group of the ranks that mpirun started; where they meet is in MASTER_ADDR and MASTER_PORT."""
    rank, size = int(os.environ["OMPI_COMM_WORLD_RANK"]), int(os.environ["OMPI_COMM_WORLD_SIZE"])
    gpus = torch.cuda.device_count()
    device = torch.device("cuda", int(os.environ["OMPI_COMM_WORLD_LOCAL_RANK"]) % gpus) if gpus else torch.device("cpu")
    dist.init_process_group("nccl" if gpus else "gloo", rank=rank, world_size=size)
    return device


def train(epochs: int, device: torch.device) -> float:
    rank, size = dist.get_rank(), dist.get_world_size()
    torch.manual_seed(1)
    bunch = load_digits()
    order = torch.randperm(len(bunch.target))
    images = (torch.tensor(bunch.data, dtype=torch.float32) / 16)[order].to(device)
    digits = torch.tensor(bunch.target)[order].to(device)
    count = len(digits) - HELD_BACK
    network = nn.Sequential(nn.Linear(64, 64), nn.ReLU(), nn.Linear(64, 10)).to(device)
    model = DistributedDataParallel(network)
    optimizer = torch.optim.Adam(model.parameters(), lr=0.01)
    for epoch in range(1, epochs + 1):
        shuffled = torch.randperm(count)
        for start in range(0, count - BATCH_SIZE + 1, BATCH_SIZE):
            mine = shuffled[start + rank : start + BATCH_SIZE : size].to(device)
            optimizer.zero_grad()
            loss = nn.functional.cross_entropy(model(images[mine]), digits[mine])
            loss.backward()
            optimizer.step()
        if rank == 0:
            print("epoch %d/%d  loss=%.4f" % (epoch, epochs, loss.item()), flush=True)
    with torch.no_grad():
        right = (network(images[count:]).argmax(dim=1) == digits[count:]).float().mean()
    return right.item()


def main() -> None:
    parser = argparse.ArgumentParser(description="train on scikit-learn's digits, on the ranks of an mpirun")
    parser.add_argument("--epochs", type=int, default=8)
    epochs = parser.parse_args().epochs
    result = train(epochs, join())
    if dist.get_rank() == 0:
        print("accuracy=%.4f" % result, flush=True)
    # As in the other examples: no tensor of the group's may be alive at its end, and the interpreter ends at once.
    gc.collect()
    dist.destroy_process_group()
    sys.stdout.flush()
    os._exit(0)


if __name__ == "__main__":
    main()
