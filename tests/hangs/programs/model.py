"""A model that is too small to take time, and what it is trained on."""

from __future__ import annotations

import torch
import torch.distributed as dist
from ranks import RANK, begin
from torch import nn
from torch.nn.parallel import DistributedDataParallel
from torch.utils.data import Dataset

SIZE = 4
"""Samples of a batch."""


def start() -> None:
    begin()
    torch.set_num_threads(1)
    torch.manual_seed(0)
    dist.init_process_group("gloo")


def layers() -> nn.Module:
    return nn.Sequential(nn.Linear(8, 8), nn.ReLU(), nn.Linear(8, 1))


def ddp(net: nn.Module | None = None, **options: object) -> tuple[DistributedDataParallel, torch.optim.Optimizer]:
    parallel = DistributedDataParallel(net or layers(), **options)  # type: ignore[arg-type]
    return parallel, torch.optim.SGD(parallel.parameters(), lr=0.01)


def batch(step: int) -> torch.Tensor:
    return torch.randn(SIZE, 8, generator=torch.Generator().manual_seed(step * 1000 + RANK))


class Samples(Dataset[torch.Tensor]):
    """Samples of which one may be special: `fetch` is called for each."""

    def __len__(self) -> int:
        return 400

    def __getitem__(self, index: int) -> torch.Tensor:
        self.fetch(index)
        return torch.randn(8, generator=torch.Generator().manual_seed(index))

    def fetch(self, index: int) -> None:
        pass
