"""Each rank's part of what a DataLoader gives.

A batch that is trained with is cut into as many slices as there are ranks, as the script's own sampler draws it: the
list of indices is cut, so that each rank loads its samples only. What does not divide goes whole to every rank, and so
does everything that is not trained with, and the first batch of a loop of which that is not known yet: the averaged
gradient of equal batches is that of one.
"""

from __future__ import annotations

from .loader_pass import make_pass
from .rank_state import NO_BATCH, replace
from .torch_module import torch

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from .loader_pass import LoaderPass
    from .rank_parts import RankParts


class LoaderPatches:
    def __init__(self, parts: RankParts) -> None:
        self._parts = parts
        self._next: LoaderPass | None = None

    def install(self) -> None:
        kind = torch.utils.data.dataloader._BaseDataLoaderIter
        replace(torch.utils.data.DataLoader, "__iter__", self._make_iter)
        replace(kind, "__init__", self._make_init)
        replace(kind, "_reset", self._make_reset)
        replace(kind, "_next_index", self._make_next_index)
        replace(kind, "__next__", self._make_next)
        if self._parts.training.mode == "scale":
            replace(torch.utils.data.DataLoader, "__len__", self._make_length)

    def _make_iter(self, original: Any) -> Any:
        def iterate(loader: Any) -> Any:
            parts = self._parts
            if not parts.training.active:
                return original(loader)
            follower = make_pass(parts, loader)
            parts.streams.use(False)
            parts.training.batch = NO_BATCH
            parts.models.average_buffers()
            if follower.may_train() and torch.is_grad_enabled():
                parts.start_pass(loader)
            former, self._next = self._next, follower
            try:
                if getattr(loader, "_iterator", None) is not None:
                    loader._iterator.__dict__["_worldsize"] = follower
                return original(loader)
            finally:
                self._next = former

        return iterate

    def _make_length(self, original: Any) -> Any:
        """Of a loader that shuffles, which is one that trains: the batches of one rank, as schedules count them."""

        def length(loader: Any) -> Any:
            batches = original(loader)
            shuffles = isinstance(loader.sampler, torch.utils.data.RandomSampler)
            size = self._parts.training.size
            if not shuffles or not self._parts.training.active or not loader.batch_size:
                return batches
            share = len(loader.sampler) // size if loader.drop_last else -(-len(loader.sampler) // size)
            return share // loader.batch_size if loader.drop_last else -(-share // loader.batch_size)

        return length

    def _make_init(self, original: Any) -> Any:
        def patched_init(iterator: Any, loader: Any) -> None:
            original(iterator, loader)
            follower, training = self._next, self._parts.training
            if follower is not None and training.active:
                iterator.__dict__["_worldsize"] = follower
                iterator._sampler_iter = follower.share_indices(iterator._sampler_iter)
                if not follower.streaming:
                    iterator._base_seed += training.rank * (1 << 32)

        return patched_init

    def _make_reset(self, original: Any) -> Any:
        def reset(iterator: Any, loader: Any, *values: Any, **keywords: Any) -> None:
            original(iterator, loader, *values, **keywords)
            follower = iterator.__dict__.get("_worldsize")
            if follower is not None and self._parts.training.active:
                iterator._sampler_iter = follower.share_indices(iterator._sampler_iter)

        return reset

    def _make_next_index(self, original: Any) -> Any:
        def next_index(iterator: Any) -> Any:
            index = original(iterator)
            follower = iterator.__dict__.get("_worldsize")
            return index if follower is None or not self._parts.training.active else follower.take(index)

        return next_index

    def _make_next(self, original: Any) -> Any:
        def patched_next(iterator: Any) -> Any:
            follower = iterator.__dict__.get("_worldsize")
            if follower is None or not self._parts.training.active:
                return original(iterator)
            follower.begin()
            try:
                data = follower.draw_own(lambda: original(iterator))
            except StopIteration:
                follower.end()
                raise
            return follower.deliver(data)

        return patched_next
