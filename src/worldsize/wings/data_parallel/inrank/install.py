"""Puts the parts in their places, once torch is there."""

from __future__ import annotations

import atexit
import hashlib
import os

from . import file_patches, report
from .batch_norm import BatchNormPatch
from .batch_slices import size_of, slice_of
from .gradient_reducer import GradientReducer
from .guards import install_guards
from .loader_patches import LoaderPatches
from .models import Models
from .printed_values import PrintedValues
from .process_group import Communicator
from .random_patches import RandomPatches
from .random_streams import RandomStreams, call_with_numpy, seed_all_ranks
from .rank_parts import RankParts
from .rank_state import NO_BATCH, BatchSizes, Training, refusal
from .torch_module import torch

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any, Mapping

PARTS: RankParts | None = None


def install(mode: str, environ: Mapping[str, str]) -> None:
    global PARTS
    training = Training(mode, environ)
    seed = int.from_bytes(hashlib.sha256(training.run_id.encode()).digest()[:4], "big")
    seed_all_ranks(seed)
    world = Communicator(training.rank, training.size)
    models = Models(training, world)
    streams = RandomStreams(training)
    values = PrintedValues(training, world)
    parts = PARTS = RankParts(training, world, models, streams, values)
    models.install()
    LoaderPatches(parts).install()
    noise = RandomPatches(training, streams)
    noise.install()

    def numpy_loaded(numpy: Any) -> None:
        numpy.seed(seed)
        noise.install_numpy(numpy)

    call_with_numpy(numpy_loaded)
    GradientReducer(training, world, models, values).install()
    values.install()
    normalising = BatchNormPatch(training, world)
    normalising.install()
    install_guards(parts, normalising)
    file_patches.install(training, world)
    os.register_at_fork(after_in_child=training.stop)
    atexit.register(world.close)
    atexit.register(report.write_report, training)


def take_part(batch: tuple[Any, ...], dim: int) -> tuple[Any, ...]:
    """This rank's samples, which lie along `dim`."""
    assert PARTS is not None
    parts, training = PARTS, PARTS.training
    if not (training.active and torch.is_grad_enabled()):
        return batch
    parts.streams.use(False)
    training.batch = training.asked = NO_BATCH
    parts.values.forget()
    parts.models.equalise_new()
    total = size_of(batch, dim)
    if total is None:
        raise refusal(f"what is to be shared out differs in dimension {dim}", "give tensors of one batch")
    training.counts["shards"] += 1
    if total % training.size:
        training.samples += total
        return batch
    local = total // training.size
    training.batch = training.asked = BatchSizes(True, local, total)
    training.samples += local
    parts.streams.use(True)
    return tuple(slice_of(each, total, training.rank * local, local, dim) for each in batch)
