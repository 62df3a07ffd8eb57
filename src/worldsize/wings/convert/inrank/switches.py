"""Switches that turn off features while a training is recorded: dropout, BatchNorm's statistics of a batch, loaders'
workers, and writing to files outside of the copy."""

from __future__ import annotations

import os
import sys
from typing import Any, Callable, Dict, List

import torch
from torch.utils.data import DataLoader
from torch.utils.data._utils.fetch import _MapDatasetFetcher

from .random_draws import Seeded

_DROPOUTS = ("dropout", "alpha_dropout", "dropout1d", "dropout2d", "dropout3d", "feature_alpha_dropout")
_OPTIONS_OF_WORKERS = ("num_workers", "prefetch_factor", "persistent_workers", "multiprocessing_context", "timeout")
_PLACE_OF_WORKERS = 5
"""The position of `num_workers` among a DataLoader's positional arguments."""
_CACHES = (".cache", ".config", ".keras", ".triton", ".nv")
"""Directories below the home directory in which libraries keep their own files."""
_CHANGES = ("os.mkdir", "os.remove", "os.rmdir", "os.rename", "os.link", "os.symlink", "os.truncate", "shutil.rmtree")
_WRITING = os.O_WRONLY | os.O_RDWR | os.O_CREAT | os.O_TRUNC | os.O_APPEND


def install(flags: Dict[str, bool], note_samples: Callable[[Any], None]) -> None:
    """Turn off dropout, BatchNorm's statistics of a batch and loaders' workers in this process, for the recording of a
    training. Set `batch_norm` and `low_precision` in `flags` when the training uses them. Call `note_samples` with the
    indices of each batch that is fetched."""
    functional: Any = torch.nn.functional
    for name in _DROPOUTS:
        if hasattr(functional, name):
            setattr(functional, name, lambda input, *values, **options: input)
    for kind in (torch.nn.RNNBase, torch.nn.MultiheadAttention):
        _switch_dropout_off(kind)
    _switch_statistics_off(functional, flags)
    _watch_autocast(flags)
    _take_workers_away()
    _fetch_one_by_one(note_samples)


def _switch_dropout_off(kind: Any) -> None:
    make = kind.__init__

    def make_without_dropout(self: Any, *values: Any, **options: Any) -> None:
        make(self, *values, **options)
        self.dropout = 0.0

    kind.__init__ = make_without_dropout


def _switch_statistics_off(functional: Any, flags: Dict[str, bool]) -> None:
    """Replace torch's `batch_norm` by a function that normalises batches by running statistics, as in an evaluation.
    The statistics of a part of a batch would differ from those of the whole."""
    batch_norm = functional.batch_norm

    def without_statistics(
        input: Any, running_mean: Any, running_var: Any, weight: Any = None, bias: Any = None,
        training: bool = False, momentum: float = 0.1, eps: float = 1e-5,
    ) -> Any:  # fmt: skip
        if training:
            flags["batch_norm"] = True
        if running_mean is None or running_var is None:
            running_mean, running_var = input.new_zeros(input.shape[1]), input.new_ones(input.shape[1])
        return batch_norm(input, running_mean, running_var, weight, bias, False, momentum, eps)

    functional.batch_norm = without_statistics


def _watch_autocast(flags: Dict[str, bool]) -> None:
    enter = torch.autocast.__enter__

    def watched(self: Any) -> Any:
        flags["low_precision"] = True
        return enter(self)

    torch.autocast.__enter__ = watched


def _take_workers_away() -> None:
    make = DataLoader.__init__

    def make_without_workers(self: Any, *values: Any, **options: Any) -> None:
        if len(values) > _PLACE_OF_WORKERS:
            values = (*values[:_PLACE_OF_WORKERS], 0, *values[_PLACE_OF_WORKERS + 1 :])
        make(self, *values, **{name: value for name, value in options.items() if name not in _OPTIONS_OF_WORKERS})

    DataLoader.__init__ = make_without_workers


def _fetch_one_by_one(note_samples: Callable[[Any], None]) -> None:
    def fetch(self: Any, indices: Any) -> Any:
        note_samples(indices)
        if not self.auto_collation:
            with Seeded(indices):
                return self.collate_fn(self.dataset[indices])
        samples = []
        several = getattr(self.dataset, "__getitems__", None)
        for index in indices:
            with Seeded(index):
                samples.append(several([index])[0] if several else self.dataset[index])
        with Seeded("collate"):
            return self.collate_fn(samples)

    _MapDatasetFetcher.fetch = fetch


def forbid_writing(writable: List[str]) -> None:
    """Make this process raise PermissionError when it opens for writing, renames or removes a file outside of the
    directories in `writable` and of libraries' caches. This cannot be undone."""
    caches = [os.path.join(os.path.expanduser("~"), name) for name in _CACHES]
    allowed = [os.path.realpath(path) for path in (*writable, *caches, "/dev")]
    save = torch.save

    def refuse_outside(path: Any) -> None:
        if isinstance(path, (str, bytes, os.PathLike)):
            real = os.path.realpath(os.fsdecode(path))
            if not any(real == each or real.startswith(each + os.sep) for each in allowed):
                raise PermissionError("a check writes nothing outside the project's copy: " + real)

    def look(event: str, values: Any) -> None:
        if event == "open":
            if isinstance(values[2], int) and values[2] & _WRITING:
                refuse_outside(values[0])
        elif event in _CHANGES:
            refuse_outside(values[1] if event in ("os.link", "os.symlink") else values[0])
            if event == "os.rename":
                refuse_outside(values[1])

    def checked_save(value: Any, file: Any, *values: Any, **options: Any) -> None:
        refuse_outside(file)
        save(value, file, *values, **options)

    torch.save = checked_save  # its writer bypasses Python's audit events
    sys.addaudithook(look)
