"""A small convolutional network on CIFAR-10 with DistributedDataParallel, called as the Azure guide calls it.

    worldsize run examples/azure-cifar/job.yml -w 2x1 --set inputs.cifar.path=/path/to/cifar

Rank 0 prints the loss every --print-freq batches, the accuracy after each epoch and `accuracy=…` at the end, and saves
the model as cifar_net.pt in --model-dir.
"""

from __future__ import annotations

import argparse
import gc
import os
import sys

import torch
import torch.distributed as dist
from cifar import TEST, TRAINING, load_images
from torch import nn
from torch.nn.parallel import DistributedDataParallel
from torch.utils.data import DataLoader, TensorDataset
from torch.utils.data.distributed import DistributedSampler


def parse_arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description="train on CIFAR-10, on all ranks")
    parser.add_argument("--data-dir", required=True, help="folder that is, or holds, cifar-10-batches-py")
    parser.add_argument("--epochs", type=int, default=10)
    parser.add_argument("--batch-size", type=int, default=64, help="images per step and rank")
    parser.add_argument("--workers", type=int, default=2, help="data loader processes per rank")
    parser.add_argument("--learning-rate", type=float, default=0.01)
    parser.add_argument("--momentum", type=float, default=0.9)
    parser.add_argument("--print-freq", type=int, default=200, help="batches from one line to the next")
    parser.add_argument("--model-dir", default="./outputs")
    return parser.parse_args()


def build_network() -> nn.Module:
    return nn.Sequential(
        nn.Conv2d(3, 16, 3, padding=1),
        nn.ReLU(),
        nn.MaxPool2d(2),
        nn.Conv2d(16, 32, 3, padding=1),
        nn.ReLU(),
        nn.MaxPool2d(2),
        nn.Flatten(),
        nn.Linear(32 * 8 * 8, 64),
        nn.ReLU(),
        nn.Linear(64, 10),
    )


def train_epoch(
    model: nn.Module,
    optimizer: torch.optim.Optimizer,
    loader: DataLoader[tuple[torch.Tensor, ...]],
    epoch: int,
    print_freq: int,
    device: torch.device,
) -> None:
    model.train()
    for number, (images, labels) in enumerate(loader, start=1):
        optimizer.zero_grad()
        loss = nn.functional.cross_entropy(model(images.to(device)), labels.to(device))
        loss.backward()
        optimizer.step()
        if dist.get_rank() == 0 and (number % print_freq == 0 or number == len(loader)):
            print("epoch %d, batch %d/%d: loss %.4f" % (epoch, number, len(loader), loss.item()), flush=True)


def test(model: nn.Module, data: TensorDataset, device: torch.device) -> float:
    """The share of right answers; each rank tests its part."""
    images, labels = (tensor[dist.get_rank() :: dist.get_world_size()] for tensor in data.tensors)
    right = torch.zeros(1, device=device)
    model.eval()
    with torch.no_grad():
        for some, truth in zip(images.split(500), labels.split(500), strict=True):
            right += (model(some.to(device)).argmax(dim=1) == truth.to(device)).sum()
    dist.all_reduce(right)
    return right.item() / len(data)


def train(arguments: argparse.Namespace, device: torch.device) -> float:
    torch.manual_seed(1)
    training, held_back = (load_images(arguments.data_dir, names) for names in (TRAINING, TEST))
    sampler = DistributedSampler(training, seed=1)
    loader = DataLoader(
        training,
        batch_size=arguments.batch_size,
        sampler=sampler,
        num_workers=arguments.workers,
        persistent_workers=arguments.workers > 0,
        pin_memory=device.type == "cuda",
    )
    model = DistributedDataParallel(build_network().to(device))
    optimizer = torch.optim.SGD(model.parameters(), lr=arguments.learning_rate, momentum=arguments.momentum)
    accuracy = 0.0
    for epoch in range(1, arguments.epochs + 1):
        sampler.set_epoch(epoch)
        train_epoch(model, optimizer, loader, epoch, arguments.print_freq, device)
        accuracy = test(model.module, held_back, device)
        if dist.get_rank() == 0:
            print("epoch %d: accuracy %.4f" % (epoch, accuracy), flush=True)
    if dist.get_rank() == 0:
        os.makedirs(arguments.model_dir, exist_ok=True)
        torch.save(model.module.state_dict(), os.path.join(arguments.model_dir, "cifar_net.pt"))
    return accuracy


def main() -> None:
    arguments = parse_arguments()
    device = torch.device("cpu")
    if torch.cuda.is_available():
        device = torch.device("cuda", int(os.environ["LOCAL_RANK"]))
        torch.cuda.set_device(device)
    dist.init_process_group("nccl" if device.type == "cuda" else "gloo", init_method="env://")
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
