"""Patches by which only rank 0 writes files. The other ranks write into a private directory instead, and read the files
again from there.

This applies only to files below the run directory, which all ranks share: the code's directory, outputs, logs. For
`torch.save`, only rank 0's file counts, in any directory. A rank that loads a file which it would have saved waits
until rank 0 has written it.
"""

from __future__ import annotations

import atexit
import builtins
import io
import os
import shutil
import sys
import tempfile
import time
from typing import Any, Callable

import torch
from worldsize_inrank.import_hook import call_after_import

from .rank_state import Training, replace

_WRITING = frozenset("wax+")


def install(training: Training, make_whole: Callable[[Any], Any]) -> None:
    """Install the patches of Python's and torch's functions by which only rank 0 writes files. `make_whole` returns the
    object that `torch.save` saves with the whole batch's values."""
    files = FilePatches(training, make_whole)
    atexit.register(files.leave)
    replace(torch, "save", files.save)
    replace(torch, "load", files.load)
    for name in ("mkdir", "makedirs"):
        replace(os, name, files.make_directory)
    if training.rank == 0:
        for name in ("rename", "replace"):
            replace(os, name, files.rename)
        return
    os.environ.setdefault("TQDM_DISABLE", "1")
    os.environ.setdefault("WANDB_MODE", "disabled")
    replace(builtins, "open", files.open)
    io.open = builtins.open
    call_after_import("torch.utils.tensorboard.writer", files.quiet_events)
    for name in ("remove", "unlink", "rename", "replace", "rmdir"):
        replace(os, name, files.remove)
    for name in ("copymode", "copystat"):
        replace(shutil, name, files.copy_mode)


class FilePatches:
    """The replacements of Python's and torch's functions for files, so that only rank 0 writes shared files. `_beside`
    contains, by the real path of a file, the rank's own file that replaces it. `_saves` contains the number of times
    that this rank has called `torch.save` for a file, or would have."""

    def __init__(self, training: Training, make_whole: Callable[[Any], Any]) -> None:
        self._training = training
        self._make_whole = make_whole
        self._root = os.path.join(os.path.realpath(training.run_dir), "") if training.run_dir else ""
        self._beside: dict[str, str] = {}
        self._saves: dict[str, int] = {}
        self._directory = ""

    def _shared_path(self, path: Any) -> str | None:
        """Return the real path of a file below the run directory, which all ranks share; None for any other file, and
        for a value that is no path."""
        if not self._root or not self._training.active or isinstance(path, int):
            return None
        try:
            real = _real_path(path)
        except (TypeError, ValueError):
            return None
        return real if real.startswith(self._root) and "__pycache__" not in real else None

    def open(self, original: Any, file: Any, mode: Any = "r", *values: Any, **keywords: Any) -> Any:
        place = self._shared_path(file) if isinstance(mode, str) else None
        if place is not None:
            writes = _WRITING.intersection(mode)
            file = (self._make_own(place, mode) if writes else self._find_own_file(place)) or file
        return original(file, mode, *values, **keywords)

    def _make_own(self, place: str, mode: str) -> str:
        """Return the path of the rank's own file, which replaces the shared file at `place`. If there is none, choose
        one in the rank's private directory, with a copy of the shared file if `mode` also reads."""
        if place not in self._beside:
            own = os.path.join(self._ensure_own_directory(), str(len(self._beside)))
            if "r" in mode and os.path.exists(place):
                shutil.copyfile(place, own)
            self._beside[place] = own
        return self._beside[place]

    def _find_own_file(self, place: str) -> str | None:
        """Return the path of the rank's own file that replaces the shared file at `place`; None if the shared file must
        be read. In that case, wait first until rank 0 has saved it as often as this rank has."""
        count = self._saves.get(place, 0)
        if place not in self._beside and count and self._training.rank and self._training.used:
            store = self._training.world.store
            key = f"worldsize/saved/{place}"
            store.wait([key])
            while int(store.get(key)) < count:
                time.sleep(0.05)
        return self._beside.get(place)

    def _ensure_own_directory(self) -> str:
        if not self._directory:
            self._directory = tempfile.mkdtemp(prefix=f"worldsize-rank-{self._training.rank}-")
            atexit.register(_remove_own, self._directory, os.getpid())
        return self._directory

    def save(self, original: Any, obj: Any, f: Any, *values: Any, **keywords: Any) -> None:
        obj = self._make_whole(obj)
        if not self._training.active or not isinstance(f, (str, os.PathLike)):
            original(obj, f, *values, **keywords)
            return
        name = self._count_save(f)
        if self._training.rank == 0:
            original(obj, f, *values, **keywords)
            self._announce(name)
        elif self._training.used:
            self._beside.pop(name, None)
        else:
            original(obj, self._make_own(name, "wb"), *values, **keywords)

    def load(self, original: Any, f: Any, *values: Any, **keywords: Any) -> Any:
        if self._training.active and isinstance(f, (str, os.PathLike)):
            f = self._find_own_file(_real_path(f)) or f
        return original(f, *values, **keywords)

    def _count_save(self, path: Any) -> str:
        """Count one more save of a file, by `torch.save` or by renaming a saved file. All ranks count alike. Return the
        file's real path."""
        name = _real_path(path)
        self._saves[name] = self._saves.get(name, 0) + 1
        return name

    def _announce(self, name: str) -> None:
        if self._training.used:
            self._training.world.store.set(f"worldsize/saved/{name}", str(self._saves[name]))

    def leave(self) -> None:
        """Wait for the other ranks at the end of a script that has saved files by `torch.save`. Do not wait after a
        failure: the other ranks then need nothing more."""
        if self._saves and self._training.used and self._training.active and not hasattr(sys, "last_value"):
            self._training.world.wait_for_others()

    def quiet_events(self, module: Any) -> None:
        """Make TensorBoard write this rank's events into the rank's private directory. Only rank 0's events count."""
        replace(module.SummaryWriter, "__init__", self._init_writer)

    def _init_writer(self, original: Any, writer: Any, log_dir: Any = None, *values: Any, **keywords: Any) -> None:
        original(writer, self._ensure_own_directory(), *values, **keywords)

    def make_directory(self, original: Any, name: Any, *values: Any, **keywords: Any) -> None:
        """Create a directory by `os.mkdir` or `os.makedirs` (`original`). Below the run directory, one that exists
        already is accepted, because another rank may have created it."""
        try:
            original(name, *values, **keywords)
        except FileExistsError:
            if self._shared_path(name) is None or not os.path.isdir(name):
                raise

    def rename(self, original: Any, path: Any, other: Any, **keywords: Any) -> None:
        """Rename a file on rank 0. If `torch.save` has written it, announce it to the other ranks under its new
        name."""
        original(path, other, **keywords)
        if self._saved_name(path) is not None:
            self._announce(self._count_save(other))

    def _saved_name(self, path: Any) -> str | None:
        """Return the real path of a file that `torch.save` has written; None for any other file."""
        if not self._saves or not self._training.active or not isinstance(path, (str, os.PathLike)):
            return None
        name = _real_path(path)
        return name if name in self._saves else None

    def copy_mode(self, original: Any, source: Any, target: Any, **keywords: Any) -> None:
        """Copy a file's mode or times by `shutil.copymode` or `copystat` (`original`), unless the rank's own file
        replaces the target."""
        if self._shared_path(target) not in self._beside:
            original(source, target, **keywords)

    def remove(self, original: Any, path: Any, *values: Any, **keywords: Any) -> None:
        """Remove a file on a rank other than 0, or rename it to the name in `values`. For files in the run directory
        and those written by `torch.save`, leave this to rank 0 and only update the record of the rank's own files."""
        saved = self._saved_name(path)
        new = self._count_save(values[0]) if saved is not None and values else None
        if saved is not None and saved not in self._beside:  # left to rank 0
            self._beside.pop(new or "", None)
            return
        place = self._shared_path(path) if not keywords.get("dir_fd") else None
        if place is None:
            original(path, *values, **keywords)
            return
        own = self._beside.pop(place, None)
        if own is not None and values:
            self._beside[_real_path(values[0])] = own


def _real_path(path: Any) -> str:
    return os.path.realpath(os.fsdecode(path))


def _remove_own(directory: str, owner: int) -> None:
    if os.getpid() == owner:
        shutil.rmtree(directory, ignore_errors=True)
