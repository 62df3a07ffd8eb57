"""The pinned memory of data loaders. Torch sees no GPU, and does not pin batches; this module pins them."""

from __future__ import annotations

from typing import Any

from . import devices
from .torch_module import patch, torch

_FLAG = "_worldsize_pins"


def install(module: Any) -> None:
    """Patch the iterators of torch.utils.data.dataloader, which is passed as `module`, so that batches are pinned if
    the loader requests it and there is a virtual GPU."""
    patch(module._BaseDataLoaderIter, "__init__", _begin_iteration)
    patch(module._BaseDataLoaderIter, "__next__", _next_batch)


def _begin_iteration(begin: Any, self: Any, loader: Any) -> None:
    self.__dict__[_FLAG] = bool(loader.pin_memory) and devices.count() > 0
    begin(self, loader)


def _next_batch(find: Any, self: Any) -> Any:
    batch = find(self)
    return torch.utils.data._utils.pin_memory.pin_memory(batch) if self.__dict__.get(_FLAG) else batch
