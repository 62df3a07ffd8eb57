"""Puts the parts in their places, once torch is there."""

from __future__ import annotations

import atexit
import hashlib
import os

from . import file_patches, report
from .batch_norm import Normalising
from .batch_slices import cut, size_of
from .gradient_reducer import Reducer
from .guards import guard
from .loader_patches import Loaders
from .models import Models
from .printed_values import Values
from .process_group import World
from .random_patches import Noise
from .random_streams import Streams, seed_alike, with_numpy
from .rank_context import Parts
from .torch_module import torch
from .training import NONE, Batch, Training, refuse

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any, Mapping

PARTS: Parts | None = None


def install(mode: str, environ: Mapping[str, str]) -> None:
    global PARTS
    training = Training(mode, environ)
    seed = int.from_bytes(hashlib.sha256(training.run_id.encode()).digest()[:4], "big")
    seed_alike(seed)
    world = World(training.rank, training.size)
    models = Models(training, world)
    streams = Streams(training)
    values = Values(training, world)
    parts = PARTS = Parts(training, world, models, streams, values)
    models.install()
    Loaders(parts).install()
    noise = Noise(training, streams)
    noise.install()

    def numpy_loaded(numpy: Any) -> None:
        numpy.seed(seed)
        noise.install_numpy(numpy)

    with_numpy(numpy_loaded)
    Reducer(training, world, models, values).install()
    values.install()
    normalising = Normalising(training, world)
    normalising.install()
    guard(parts, normalising)
    file_patches.install(training, world)
    os.register_at_fork(after_in_child=training.stop)
    atexit.register(world.close)
    atexit.register(report.write, training)


def take_part(batch: tuple[Any, ...], dim: int) -> tuple[Any, ...]:
    """This rank's samples, which lie along `dim`."""
    assert PARTS is not None
    parts, training = PARTS, PARTS.training
    if not (training.active and torch.is_grad_enabled()):
        return batch
    parts.streams.use(False)
    training.batch = training.asked = NONE
    parts.values.forget()
    parts.models.start_equal()
    total = size_of(batch, dim)
    if total is None:
        raise refuse("what is to be shared out differs in dimension %d" % dim, "give tensors of one batch")
    training.counts["shards"] += 1
    if total % training.size:
        training.samples += total
        return batch
    local = total // training.size
    training.batch = training.asked = Batch(True, local, total)
    training.samples += local
    parts.streams.use(True)
    return tuple(cut(each, total, training.rank * local, local, dim) for each in batch)
