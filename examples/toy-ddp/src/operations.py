"""What is done with the model: one epoch of training, the loss over all ranks, the checkpoint."""

from __future__ import annotations

import os

import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel

CHECKPOINT = "checkpoint.pt"


def train_epoch(
    model: DistributedDataParallel,
    optimizer: torch.optim.Optimizer,
    samples: tuple[torch.Tensor, torch.Tensor],
    batch_size: int,
    epoch: int,
) -> float:
    """One pass over this rank's share of the samples; returns the mean loss over all ranks."""
    points, targets = samples
    rank, world_size = dist.get_rank(), dist.get_world_size()
    order = torch.randperm(len(points), generator=torch.Generator().manual_seed(epoch))
    share = order[: len(order) // world_size * world_size][rank::world_size].to(points.device)
    total = torch.zeros(1, device=points.device)
    batches = share.split(batch_size)
    for batch in batches:
        optimizer.zero_grad()
        loss = nn.functional.mse_loss(model(points[batch]), targets[batch])
        loss.backward()
        optimizer.step()
        total += loss.detach()
    dist.all_reduce(total)
    return total.item() / (len(batches) * world_size)


def save_checkpoint(folder: str, model: DistributedDataParallel, optimizer: torch.optim.Optimizer, epoch: int) -> None:
    """Write to a new file, then rename it: a run that is stopped in the middle leaves the last whole checkpoint."""
    os.makedirs(folder, exist_ok=True)
    path = os.path.join(folder, CHECKPOINT)
    state = {"epoch": epoch, "model": model.module.state_dict(), "optimizer": optimizer.state_dict()}
    torch.save(state, path + ".part")
    os.replace(path + ".part", path)


def load_checkpoint(
    folder: str, model: DistributedDataParallel, optimizer: torch.optim.Optimizer, device: torch.device
) -> int | None:
    """The epoch after which the checkpoint was written, or None where there is none."""
    path = os.path.join(folder, CHECKPOINT)
    if not os.path.exists(path):
        return None
    state = torch.load(path, map_location=device, weights_only=True)
    model.module.load_state_dict(state["model"])
    optimizer.load_state_dict(state["optimizer"])
    return int(state["epoch"])
