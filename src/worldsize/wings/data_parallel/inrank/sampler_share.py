"""`scale`: the batch size is each rank's, and a pass goes over a rank's share of what the sampler draws."""

from __future__ import annotations

from .torch_module import torch

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any, Iterator


def rank_batches(loader: Any, batches: Iterator[Any], rank: int, size: int) -> Iterator[Any]:
    """The lists of indices of one rank: as with a DistributedSampler, whose epoch is set, each takes every `size`-th
    sample, and the first ones come again at the end, so that all have as many; with `drop_last`, the rest is left.

    A batch sampler of the script's own is not taken apart: each rank takes every `size`-th batch.
    """
    if type(loader.batch_sampler) is not torch.utils.data.BatchSampler:
        yield from _batches_in_turn(batches, rank, size)
        return
    drawn = list(loader.batch_sampler.sampler)
    if not drawn:
        return
    if loader.drop_last:
        drawn = drawn[: len(drawn) // size * size]
    while len(drawn) % size:
        drawn += drawn[: size - len(drawn) % size]
    own, count = drawn[rank::size], loader.batch_sampler.batch_size
    for start in range(0, len(own), count):
        if start + count <= len(own) or not loader.drop_last:
            yield own[start : start + count]


def _batches_in_turn(batches: Iterator[Any], rank: int, size: int) -> Iterator[Any]:
    """What is left of the last round is left out, since not every rank would have one."""
    round_of_all = []
    for batch in batches:
        round_of_all.append(batch)
        if len(round_of_all) == size:
            yield round_of_all[rank]
            round_of_all.clear()
