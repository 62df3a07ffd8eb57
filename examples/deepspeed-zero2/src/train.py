"""Digits by DeepSpeed: scikit-learn's 1,797 images of 8 × 8, a configuration file, ZeRO.

    worldsize run examples/deepspeed-zero2/job.yml -w 2x2
    worldsize run examples/deepspeed-zero2/job.yml --set 'command=deepspeed train.py --config ds_config.json'

Ranks started by worldsize, by mpirun or by DeepSpeed's own launcher are all the same to it. Rank 0 prints a line per
epoch and `accuracy=…` on the images held back.
"""

from __future__ import annotations

import argparse
import gc
import os
import sys

import deepspeed
import torch
import torch.distributed as dist
from deepspeed.accelerator import get_accelerator
from sklearn.datasets import load_digits
from torch import nn

HELD_BACK = 360


def parse_arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description="train on scikit-learn's digits with DeepSpeed")
    parser.add_argument("--config", default="ds_config.json")
    parser.add_argument("--epochs", type=int, default=4)
    parser.add_argument("--width", type=int, default=64, help="of the hidden layer")
    parser.add_argument("--local_rank", type=int, default=-1, help="what DeepSpeed's launcher passes")
    return parser.parse_args()


def load_data(device: torch.device) -> tuple[torch.Tensor, torch.Tensor]:
    """All images and their digits, in one order on every rank; the last HELD_BACK are the test."""
    bunch = load_digits()
    order = torch.randperm(len(bunch.target), generator=torch.Generator().manual_seed(1))
    images = torch.tensor(bunch.data, dtype=torch.float32)[order] / 16
    return images.to(device), torch.tensor(bunch.target)[order].to(device)


def train(arguments: argparse.Namespace) -> float:
    rank, size = dist.get_rank(), dist.get_world_size()
    torch.manual_seed(1)
    network = nn.Sequential(nn.Linear(64, arguments.width), nn.ReLU(), nn.Linear(arguments.width, 10))
    engine, *_ = deepspeed.initialize(
        model=network, model_parameters=network.parameters(), config=arguments.config, dist_init_required=False
    )
    images, digits = load_data(engine.device)
    count = len(digits) - HELD_BACK
    batch = engine.train_micro_batch_size_per_gpu() * size
    if rank == 0:
        print("ZeRO stage %d, %d images per step" % (engine.zero_optimization_stage(), batch), flush=True)
    for epoch in range(1, arguments.epochs + 1):
        order = torch.randperm(count, generator=torch.Generator().manual_seed(epoch))
        for start in range(0, count - batch + 1, batch):
            mine = order[start + rank : start + batch : size].to(engine.device)
            loss = nn.functional.cross_entropy(engine(images[mine]), digits[mine])
            engine.backward(loss)
            engine.step()
        if rank == 0:
            print("epoch %d/%d  loss=%.4f" % (epoch, arguments.epochs, loss.item()), flush=True)
    with torch.no_grad():
        right = (engine(images[count:]).argmax(dim=1) == digits[count:]).float().mean()
    return right.item()


def main() -> None:
    arguments = parse_arguments()
    deepspeed.init_distributed(get_accelerator().communication_backend_name())
    result = train(arguments)
    if dist.get_rank() == 0:
        print("accuracy=%.4f" % result, flush=True)
    # As in the other examples: no tensor of the group's may be alive at its end, and the interpreter ends at once.
    gc.collect()
    dist.destroy_process_group()
    sys.stdout.flush()
    os._exit(0)


if __name__ == "__main__":
    main()
