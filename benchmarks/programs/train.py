"""A small model trained data-parallel on gloo, CPU only: python train.py STEPS FILE. Rank 0 writes seconds per step.

Every step is timed on its own, after a tenth of them as warm-up; the group is left cleanly, with nothing of it alive.
"""

from __future__ import annotations

import gc
import json
import os
import sys
import time

import torch
import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel


def main() -> None:
    steps, target = int(sys.argv[1]), sys.argv[2]
    dist.init_process_group("gloo")
    torch.manual_seed(dist.get_rank())
    model = DistributedDataParallel(
        torch.nn.Sequential(
            torch.nn.Linear(256, 512),
            torch.nn.ReLU(),
            torch.nn.Linear(512, 512),
            torch.nn.ReLU(),
            torch.nn.Linear(512, 10),
        )
    )
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
    took = train(model, optimizer, steps)
    if dist.get_rank() == 0:
        with open(target, "w") as file:
            json.dump({"seconds": took[steps // 10 :], "threads": torch.get_num_threads()}, file)
    del model, optimizer
    gc.collect()
    dist.destroy_process_group()
    sys.stdout.flush()
    os._exit(0)


def train(model: torch.nn.Module, optimizer: torch.optim.Optimizer, steps: int) -> list[float]:
    """Seconds of each step."""
    took = []
    for _ in range(steps):
        inputs, labels = torch.randn(64, 256), torch.randint(10, (64,))
        began = time.perf_counter()
        optimizer.zero_grad()
        torch.nn.functional.cross_entropy(model(inputs), labels).backward()
        optimizer.step()
        took.append(time.perf_counter() - began)
    return took


if __name__ == "__main__":
    main()
