"""Puts the parts in their places, once torch is there."""

from __future__ import annotations

import atexit
import hashlib
import os

from . import files, report
from .guard import guard
from .loader import Loaders
from .models import Models
from .noise import Noise
from .normalising import Normalising
from .parts import Parts
from .reducer import Reducer
from .slices import cut, size_of
from .state import NONE, Batch, Training, refuse
from .streams import Streams, seed_alike, with_numpy
from .torchlib import torch
from .values import Values
from .world import World

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
    files.install(training, world)
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
