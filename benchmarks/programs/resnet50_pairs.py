"""Steps of ResNet-50 as `worldsize bench resnet50` times them, and of a bare loop, in turns within one process.

    python resnet50_pairs.py RANKS_CODE SIZE WIDTH BATCH STEPS PAIRS

Both train a network of their own, made the same, on one batch of their own. Prints seconds of STEPS steps, pair by
pair, as JSON: of this process's CPU, which others on the machine disturb less.
"""

from __future__ import annotations

import argparse
import json
import sys
import time
from collections.abc import Callable

import torch


def bare_loop(size: int, width: int, batch: int, steps: int) -> Callable[[], float]:
    """What anybody would write: the function trains for so many steps, and returns the seconds."""
    from resnet50.torch_network import build_network

    network = build_network(1000, width).train()
    optimizer = torch.optim.SGD(network.parameters(), lr=0.01, momentum=0.9)
    images, labels = torch.randn(batch, 3, size, size), torch.randint(0, 1000, (batch,))

    def train() -> float:
        began = time.process_time()
        for _ in range(steps):
            optimizer.zero_grad()
            loss = torch.nn.functional.cross_entropy(network(images), labels)
            loss.backward()
            optimizer.step()
        return time.process_time() - began

    return train


def measured_loop(size: int, width: int, batch: int, steps: int) -> Callable[[], float]:
    """The steps that `bench resnet50` takes on a CPU, timed by its own function."""
    from resnet50 import torch_training
    from resnet50.blocks import time_blocks

    arguments = argparse.Namespace(data="synthetic", batch=batch, image_size=size, width=width, precision="fp32")
    device = torch.device("cpu")
    network = torch_training.make_network(arguments, device)
    batches = torch_training.make_batches(arguments, device, (0, 1), 0)
    optimizer = torch_training.make_optimizer(network)
    trainer = torch_training.Trainer(network, optimizer, batches, device, "fp32")

    def train() -> float:
        seconds: list[float] = time_blocks(trainer.step, trainer.synchronize, [steps], time.process_time)
        return seconds[0]

    return train


def main() -> None:
    sys.path.insert(0, sys.argv[1])
    size, width, batch, steps, pairs = map(int, sys.argv[2:])
    loops = {"bench": measured_loop(size, width, batch, steps), "bare": bare_loop(size, width, batch, steps)}
    found: dict[str, list[float]] = {name: [] for name in loops}
    for number in range(-1, pairs):
        for name in loops if number % 2 else reversed(loops):
            seconds = loops[name]()
            if number >= 0:
                found[name].append(seconds)
    print(json.dumps({**found, "threads": torch.get_num_threads()}))


if __name__ == "__main__":
    main()
