"""Recognise handwritten digits: DistributedDataParallel on the 1,797 images of 8 × 8 that come with scikit-learn.

    worldsize run examples/digits/job.yml -w 2x2
    worldsize run examples/digits/job.yml -w 1x4 --set inputs.epochs=5 --set inputs.lr=0.05

The batch size counts all ranks together, so that the result is the same on any number of them. Rank 0 prints a line per
epoch and `accuracy=…` on the images held back, and saves the model as ./outputs/model.pt.
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

SEED = 1
HELD_BACK = 360


def parse_arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description="train on scikit-learn's digits, on all ranks")
    parser.add_argument("--epochs", type=int, default=10)
    parser.add_argument("--lr", type=float, default=0.1)
    parser.add_argument("--batch-size", type=int, default=64, help="images per step, all ranks together")
    return parser.parse_args()


def prepare_device() -> torch.device:
    """This rank's GPU, or the CPU with this rank's share of its cores unless OMP_NUM_THREADS says how many."""
    local_rank = int(os.environ["LOCAL_RANK"])
    if torch.cuda.is_available():
        torch.cuda.set_device(local_rank)
        return torch.device("cuda", local_rank)
    if "OMP_NUM_THREADS" not in os.environ:
        ranks_here = int(os.environ.get("LOCAL_WORLD_SIZE", "1"))
        torch.set_num_threads(max(1, len(os.sched_getaffinity(0)) // ranks_here))
    return torch.device("cpu")


def build_model() -> nn.Module:
    return nn.Sequential(
        nn.Conv2d(1, 16, kernel_size=3, padding=1),
        nn.ReLU(),
        nn.MaxPool2d(2),
        nn.Flatten(),
        nn.Linear(16 * 4 * 4, 64),
        nn.ReLU(),
        nn.Linear(64, 10),
    )


def load_data(device: torch.device) -> tuple[torch.Tensor, torch.Tensor]:
    """All images (1 × 8 × 8, 0 to 1) and their digits, in one order on every rank; the last HELD_BACK are the test."""
    digits = load_digits()
    order = torch.randperm(len(digits.target), generator=torch.Generator().manual_seed(SEED))
    images = torch.tensor(digits.images, dtype=torch.float32).unsqueeze(1) / 16
    return images[order].to(device), torch.tensor(digits.target)[order].to(device)


def accuracy(model: nn.Module, images: torch.Tensor, digits: torch.Tensor) -> float:
    """The share of right answers; each rank tests its part."""
    mine = slice(dist.get_rank(), None, dist.get_world_size())
    model.eval()
    with torch.no_grad():
        right = (model(images[mine]).argmax(dim=1) == digits[mine]).sum().reshape(1)
    dist.all_reduce(right)
    return right.item() / len(digits)


def train(arguments: argparse.Namespace, device: torch.device) -> float:
    rank, world_size = dist.get_rank(), dist.get_world_size()
    torch.manual_seed(SEED)
    images, digits = load_data(device)
    count = len(digits) - HELD_BACK
    batch_size = max(world_size, arguments.batch_size // world_size * world_size)
    model = DistributedDataParallel(build_model().to(device))
    optimizer = torch.optim.SGD(model.parameters(), lr=arguments.lr, momentum=0.9)
    schedule = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, arguments.epochs)
    for epoch in range(1, arguments.epochs + 1):
        order = torch.randperm(count, generator=torch.Generator().manual_seed(SEED + epoch))
        total = torch.zeros((), device=device)
        for start in range(0, count - batch_size + 1, batch_size):
            mine = order[start + rank : start + batch_size : world_size].to(device)
            optimizer.zero_grad()
            loss = nn.functional.cross_entropy(model(images[mine]), digits[mine])
            loss.backward()
            optimizer.step()
            total += loss.detach()
        schedule.step()
        if rank == 0:
            mean = total.item() / (count // batch_size)
            print("epoch %2d/%d  loss=%.4f" % (epoch, arguments.epochs, mean), flush=True)
    if rank == 0:
        os.makedirs("outputs", exist_ok=True)
        torch.save(model.module.state_dict(), os.path.join("outputs", "model.pt"))
    return accuracy(model.module, images[count:], digits[count:])


def main() -> None:
    arguments = parse_arguments()
    device = prepare_device()
    dist.init_process_group("nccl" if device.type == "cuda" else "gloo")
    result = train(arguments, device)
    if dist.get_rank() == 0:
        print("accuracy=%.4f" % result, flush=True)
    # A process whose work is done may still be aborted by gloo: at the group's end while the model or a tensor of it is
    # alive, so collect them first; and, rarely, in the interpreter's tear-down, so leave without it.
    gc.collect()
    dist.destroy_process_group()
    sys.stdout.flush()
    os._exit(0)


if __name__ == "__main__":
    main()
