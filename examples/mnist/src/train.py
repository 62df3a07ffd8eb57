"""MNIST with DistributedDataParallel: the Slurm tutorial's network, arguments and printout.

    python examples/mnist/download.py               once, where there is internet: into examples/mnist/data
    worldsize run examples/mnist/job.yml -w 1x8     14 epochs on one node with 8 ranks; -w 2x8 on two

Every rank works on its own share with its own batches of --batch-size, so that more ranks make larger steps. The
counter in brackets is rank 0's own, as the tutorial has it: with 8 ranks its share of the 60,000 ends at 7,500.
"""

from __future__ import annotations

import argparse
import gc
import os
import sys

import torch
import torch.distributed as dist
from idx import read_split
from torch import nn
from torch.nn.functional import nll_loss
from torch.nn.parallel import DistributedDataParallel

MEAN, DEVIATION = 0.1307, 0.3081
Split = tuple[torch.Tensor, torch.Tensor]


def parse_arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description="train on MNIST, on all ranks")
    parser.add_argument("--data", required=True, help="folder with the four IDX files, plain or gzipped")
    parser.add_argument("--epochs", type=int, default=14)
    parser.add_argument("--batch-size", type=int, default=64, help="images per step and rank")
    parser.add_argument("--test-batch-size", type=int, default=1000)
    parser.add_argument("--lr", type=float, default=1.0)
    parser.add_argument("--gamma", type=float, default=0.7, help="the learning rate's factor from epoch to epoch")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--log-interval", type=int, default=10, help="steps from one line to the next")
    parser.add_argument("--dry-run", action="store_true", help="one step, one test, and no more")
    parser.add_argument("--save-model", action="store_true", help="save it as ./outputs/mnist_cnn.pt")
    return parser.parse_args()


def build_network() -> nn.Module:
    return nn.Sequential(
        nn.Conv2d(1, 32, 3),
        nn.ReLU(),
        nn.Conv2d(32, 64, 3),
        nn.ReLU(),
        nn.MaxPool2d(2),
        nn.Dropout(0.25),
        nn.Flatten(),
        nn.Linear(64 * 12 * 12, 128),
        nn.ReLU(),
        nn.Dropout(0.5),
        nn.Linear(128, 10),
        nn.LogSoftmax(dim=1),
    )


def load_split(folder: str, split: str, device: torch.device) -> Split:
    images, labels = read_split(folder, split)
    pixels = torch.tensor(images, dtype=torch.float32, device=device).unsqueeze(1) / 255
    return (pixels - MEAN) / DEVIATION, torch.tensor(labels, dtype=torch.long, device=device)


def train_epoch(
    model: nn.Module, optimizer: torch.optim.Optimizer, data: Split, epoch: int, arguments: argparse.Namespace
) -> None:
    images, labels = data
    rank, world_size = dist.get_rank(), dist.get_world_size()
    order = torch.randperm(len(labels), generator=torch.Generator().manual_seed(arguments.seed + epoch))
    share = order[: len(order) // world_size * world_size][rank::world_size].to(labels.device)
    batches = share.split(arguments.batch_size)
    model.train()
    for number, batch in enumerate(batches):
        optimizer.zero_grad()
        loss = nll_loss(model(images[batch]), labels[batch])
        loss.backward()
        optimizer.step()
        if rank == 0 and number % arguments.log_interval == 0:
            at = (epoch, number * len(batch), len(labels), 100 * number / len(batches), loss.item())
            print("Train Epoch: %d [%d/%d (%.0f%%)]\tLoss: %.6f" % at, flush=True)
        if arguments.dry_run:
            return


def test(model: nn.Module, data: Split, batch_size: int) -> None:
    """Each rank tests its part of the images; rank 0 prints what they found together."""
    mine = slice(dist.get_rank(), None, dist.get_world_size())
    totals = torch.zeros(2, device=data[1].device)
    model.eval()
    with torch.no_grad():
        for images, labels in zip(data[0][mine].split(batch_size), data[1][mine].split(batch_size), strict=True):
            output = model(images)
            totals[0] += nll_loss(output, labels, reduction="sum")
            totals[1] += (output.argmax(dim=1) == labels).sum()
    dist.all_reduce(totals)
    loss, right, count = totals[0].item(), int(totals[1].item()), len(data[1])
    if dist.get_rank() == 0:
        result = (loss / count, right, count, 100 * right / count)
        print("\nTest set: Average loss: %.4f, Accuracy: %d/%d (%.0f%%)\n" % result, flush=True)


def train(arguments: argparse.Namespace, device: torch.device) -> None:
    training, held_back = (load_split(arguments.data, split, device) for split in ("train", "test"))
    torch.manual_seed(arguments.seed)
    model = DistributedDataParallel(build_network().to(device))
    torch.manual_seed(arguments.seed + dist.get_rank())  # each rank drops out other neurons
    optimizer = torch.optim.Adadelta(model.parameters(), lr=arguments.lr)
    schedule = torch.optim.lr_scheduler.StepLR(optimizer, step_size=1, gamma=arguments.gamma)
    for epoch in range(1, (1 if arguments.dry_run else arguments.epochs) + 1):
        train_epoch(model, optimizer, training, epoch, arguments)
        test(model.module, held_back, arguments.test_batch_size)
        schedule.step()
    if arguments.save_model and dist.get_rank() == 0:
        os.makedirs("outputs", exist_ok=True)
        torch.save(model.module.state_dict(), os.path.join("outputs", "mnist_cnn.pt"))


def main() -> None:
    arguments = parse_arguments()
    device = torch.device("cpu")
    if torch.cuda.is_available():
        device = torch.device("cuda", int(os.environ["LOCAL_RANK"]))
        torch.cuda.set_device(device)
    dist.init_process_group("nccl" if device.type == "cuda" else "gloo")
    train(arguments, device)
    # A process whose work is done may still be aborted by gloo: at the group's end while the model or a tensor of it is
    # alive, so collect them first; and, rarely, in the interpreter's tear-down, so leave without it.
    gc.collect()
    dist.destroy_process_group()
    sys.stdout.flush()
    os._exit(0)


if __name__ == "__main__":
    main()
