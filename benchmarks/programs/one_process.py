"""A training script for one process, and with the word "ddp" the same by hand: `one_process.py STEPS TARGET [ddp]`.

Rank 0 writes the seconds of each step, loading included, and its CPU seconds, to TARGET.
"""

import json
import os
import sys
import time

import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

WARM = 5


def block(inside, outside):
    return nn.Sequential(nn.Conv2d(inside, outside, 3, padding=1), nn.GroupNorm(4, outside), nn.ReLU())


def main(steps, target, by_hand):
    torch.manual_seed(0)
    model = nn.Sequential(
        block(3, 16), block(16, 32), nn.MaxPool2d(2), *(block(32, 32) for _ in range(6)), nn.Flatten(),
        nn.Linear(32 * 8 * 8, 256), nn.ReLU(), nn.Linear(256, 10),
    )  # fmt: skip
    data = TensorDataset(torch.randn(320, 3, 16, 16), torch.randint(10, (320,)))
    loader = DataLoader(data, batch_size=64, shuffle=True)
    if by_hand:
        import torch.distributed as dist
        from torch.nn.parallel import DistributedDataParallel
        from torch.utils.data.distributed import DistributedSampler

        dist.init_process_group("gloo")
        model = DistributedDataParallel(model)
        loader = DataLoader(data, batch_size=64 // dist.get_world_size(), sampler=DistributedSampler(data))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01, momentum=0.9)
    seconds, used = [], []
    started, spent = time.perf_counter(), time.process_time()
    while len(seconds) < steps:
        for images, labels in loader:
            optimizer.zero_grad()
            loss = nn.functional.cross_entropy(model(images), labels)
            loss.backward()
            optimizer.step()
            loss.item()
            seconds.append(time.perf_counter() - started)
            used.append(time.process_time() - spent)
            started, spent = time.perf_counter(), time.process_time()
    if os.environ.get("RANK", "0") == "0":
        with open(target, "w") as file:
            json.dump({"seconds": seconds[WARM:] or seconds, "cpu": used[WARM:] or used}, file)
    if by_hand:
        del model, optimizer, loss
        dist.destroy_process_group()


if __name__ == "__main__":
    main(int(sys.argv[1]), sys.argv[2], "ddp" in sys.argv)
