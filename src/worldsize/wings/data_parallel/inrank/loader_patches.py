"""Patches of DataLoader that give each rank its part of the loaded data.

A batch that the script trains with is cut into one slice per rank, in the order that the script's own sampler draws.
The list of indices is cut, so that each rank loads only its samples. Some batches go whole to every rank: those whose
size the number of ranks does not divide, those that are not trained with, and the first batch of a loop whose purpose
is not known yet. The result is still correct, since the average of the gradients of equal batches is the gradient of
one.
"""

from __future__ import annotations

import math
from typing import Any

import torch

from .loader_pass import LoaderPass, RankParts
from .rank_state import NO_BATCH, replace


class LoaderPatches:
    def __init__(self, parts: RankParts) -> None:
        self._parts = parts
        self._training = parts.training
        self._next: LoaderPass | None = None

    def install(self) -> None:
        kind = torch.utils.data.dataloader._BaseDataLoaderIter
        replace(torch.utils.data.DataLoader, "__iter__", self._iterate)
        replace(kind, "__init__", self._init)
        replace(kind, "_reset", self._reset)
        replace(kind, "_next_index", self._next_index)
        replace(kind, "__next__", self._take_next)
        if self._training.mode == "scale":
            replace(torch.utils.data.DataLoader, "__len__", self._length)

    def _pass_of(self, iterator: Any) -> Any:
        """Return the LoaderPass of a data loader's iterator. None if the iterator is not followed or data parallelism
        is off."""
        return iterator.__dict__.get("_worldsize") if self._training.active else None

    def _iterate(self, original: Any, loader: Any) -> Any:
        parts = self._parts
        if not self._training.active:
            return original(loader)
        follower = LoaderPass(parts, loader)
        parts.streams.use(False)
        self._training.batch = NO_BATCH
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

    def _length(self, original: Any, loader: Any) -> Any:
        """Return the length of a data loader in mode `scale`, as learning-rate schedules count it. For a loader that
        shuffles, which is assumed to train, this is the number of batches of one rank; for another, the loader's own
        length (`original`)."""
        shuffles = isinstance(loader.sampler, torch.utils.data.RandomSampler)
        if not shuffles or not self._training.active or not loader.batch_size:
            return original(loader)
        count = math.floor if loader.drop_last else math.ceil
        return count(count(len(loader.sampler) / self._training.size) / loader.batch_size)

    def _init(self, original: Any, iterator: Any, loader: Any) -> None:
        original(iterator, loader)
        iterator.__dict__["_worldsize"] = self._next
        follower = self._pass_of(iterator)
        if follower is not None:
            iterator._sampler_iter = follower.share_indices(iterator._sampler_iter)
            if not follower.streaming:
                iterator._base_seed += self._training.rank * (1 << 32)

    def _reset(self, original: Any, iterator: Any, loader: Any, *values: Any, **keywords: Any) -> None:
        original(iterator, loader, *values, **keywords)
        follower = self._pass_of(iterator)
        if follower is not None:
            iterator._sampler_iter = follower.share_indices(iterator._sampler_iter)

    def _next_index(self, original: Any, iterator: Any) -> Any:
        index, follower = original(iterator), self._pass_of(iterator)
        return index if follower is None else follower.take(index)

    def _take_next(self, original: Any, iterator: Any) -> Any:
        follower = self._pass_of(iterator)
        if follower is None:
            return original(iterator)
        with self._parts.values.follower.paused():
            follower.begin()
            try:
                data = follower.draw_own(lambda: original(iterator))
            except StopIteration:
                follower.end()
                raise
            return follower.deliver(data)
