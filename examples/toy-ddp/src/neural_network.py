"""The model alone: a small regression network, and the function that it has to learn."""

from __future__ import annotations

import torch
from torch import nn

FEATURES = 20


def build_network() -> nn.Module:
    return nn.Sequential(nn.Linear(FEATURES, 64), nn.Tanh(), nn.Linear(64, 1))


def make_samples(count: int, seed: int) -> tuple[torch.Tensor, torch.Tensor]:
    """`count` points and their targets, the same on every rank for the same seed."""
    generator = torch.Generator().manual_seed(seed)
    points = torch.rand(count, FEATURES, generator=generator)
    return points, points.pow(2).sum(dim=1, keepdim=True)
