"""Installation of all parts after torch is imported, and the report on the rank's work at the end."""

from __future__ import annotations

import atexit
import hashlib
import json
import os
import random
from typing import Any, Mapping

import torch
from worldsize_inrank.import_hook import call_after_import

from . import file_patches
from .batch_norm import BatchNormPatch
from .batch_slices import size_of, slice_of
from .cropped_batches import CroppedBatches
from .figures.drawn_rows import DrawnRows
from .figures.random_draws import RandomPatches
from .gradient_reducer import GradientReducer
from .guards import Guards
from .loader_pass import RankParts
from .loader_patches import LoaderPatches
from .rank_state import NO_BATCH, Training, refusal, user_place

PARTS: RankParts | None = None


def install(mode: str, environ: Mapping[str, str]) -> None:
    global PARTS
    training = Training(mode, environ)
    parts = PARTS = RankParts(training)
    parts.models.install()
    LoaderPatches(parts).install()
    _install_random_numbers(parts)
    GradientReducer(training, parts.models, parts.values).install()
    parts.values.install()
    normalising = BatchNormPatch(training)
    normalising.install()
    cropped = CroppedBatches(training, parts.values.follower, _take_crop)
    cropped.install()
    Guards(training, parts.models, normalising, cropped.leave_alone).install()
    os.register_at_fork(after_in_child=training.stop)
    atexit.register(training.world.close)
    atexit.register(_write_report, training)
    file_patches.install(training, parts.values.follower.whole_in)


def _install_random_numbers(parts: RankParts) -> None:
    """Seed the random generators of Python, torch and NumPy alike on all ranks, for scripts that set no seed, and
    install the patches of random functions."""
    follower = parts.values.follower
    seed = int.from_bytes(hashlib.sha256(parts.training.run_id.encode()).digest()[:4], "big")
    random.seed(seed)
    torch.manual_seed(seed)
    patches = RandomPatches(parts.training, parts.streams, DrawnRows(parts.training, follower))
    patches.install()

    def install_numpy(numpy: Any) -> None:
        numpy.seed(seed)
        patches.install_numpy(numpy)

    call_after_import("numpy.random", install_numpy)


def take_part(batch: tuple[Any, ...], dim: int) -> tuple[Any, ...]:
    """Return this rank's samples, along the dimension `dim`, of the tensors of a batch, which the script has passed to
    `worldsize.shard`. Return them unchanged if they are divided already or cannot be divided, without gradients, or if
    data parallelism is off."""
    assert PARTS is not None
    with PARTS.values.follower.paused():
        return _take_part(PARTS, batch, dim)


def _take_crop(batch: Any, is_more: bool) -> Any:
    """Return this rank's rows of a tensor of a batch that the script has drawn itself. `is_more` means that another
    tensor of the batch was taken before."""
    assert PARTS is not None
    training, follower = PARTS.training, PARTS.values.follower
    with follower.paused():
        if not is_more:
            (own,) = _take_part(PARTS, (batch,), 0)
            if training.batch.sliced:
                training.cropped = training.cropped or user_place()
                training.show_notice(
                    f"{user_place()}: the script's own batches of {len(batch)} samples are divided among the ranks"
                )
            return own
        sizes = training.batch
        if not sizes.sliced or len(batch) != sizes.total:
            return batch
        own = batch[training.rank * sizes.local :][: sizes.local]
        return follower.follow(own, sizes.local, sizes.total)


def _take_part(parts: RankParts, batch: tuple[Any, ...], dim: int) -> tuple[Any, ...]:
    training = parts.training
    is_part = training.batch.sliced and all(each in parts.values.follower.table for each in batch)
    if is_part or not (training.active and torch.is_grad_enabled()):
        return batch
    parts.streams.use(False)
    training.batch = training.asked = NO_BATCH
    parts.values.forget()
    parts.models.equalise_new()
    total = size_of(batch, dim)
    if total is None:
        raise refusal(f"the tensors to divide differ in dimension {dim}", "pass tensors of one batch")
    training.counts["shards"] += 1
    sizes = training.divide(total)
    training.samples += sizes.local
    if not sizes.sliced:
        return batch
    training.batch = training.asked = sizes
    parts.streams.use(True)
    own = tuple(slice_of(each, total, training.rank * sizes.local, sizes.local, dim) for each in batch)
    return parts.values.follower.follow(own, sizes.local, total, dim)  # type: ignore[no-any-return]


def _write_report(training: Training) -> None:
    """Write the numbers of samples, batches, backward passes and steps of this rank as JSON into the attempt's
    directory (`data-parallel/rank-N.json`). Do nothing if the rank has not trained. Errors of writing are ignored."""
    if not training.run_dir or not (training.backwards or training.steps):
        return
    directory = os.path.join(training.run_dir, "attempt-" + training.attempt, "data-parallel")
    told = {
        "mode": training.mode,
        "left_alone": not training.active,
        "samples": training.samples,
        "batches": training.counts,
        "backwards": training.backwards,
        "steps": training.steps,
    }
    training.active = False
    try:
        mode = os.stat(os.path.dirname(directory)).st_mode & 0o777  # independent of the rank's umask
        os.makedirs(directory, mode, exist_ok=True)
        path = os.path.join(directory, f"rank-{training.rank:05d}.json")
        with open(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, mode & 0o666), "w") as file:
            json.dump(told, file)
    except OSError:
        pass  # a full disk must not fail a training that has succeeded
