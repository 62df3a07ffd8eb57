"""Files are rank 0's to write. The others write beside: into a directory of their own, where they also read them again.

Only files below the run directory are meant, which all ranks share: the code's directory, outputs, logs. `torch.save`
is rank 0's wherever it writes; a rank that loads what it would have written waits until rank 0 has.
"""

from __future__ import annotations

import builtins
import io
import os
import shutil
import sys
from typing import Any

import torch
from worldsize_inrank.import_hook import call_after_import

from .rank_state import Training, replace

_WRITING = frozenset("wax+")


def install(training: Training) -> None:
    files = FilePatches(training)
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
    def __init__(self, training: Training) -> None:
        self._training = training
        self._root = os.path.join(os.path.realpath(training.run_dir), "") if training.run_dir else ""
        self._beside: dict[str, str] = {}
        self._saves: dict[str, int] = {}
        self._leaves = False
        self._directory = ""

    def _shared_path(self, path: Any) -> str | None:
        """The real path where it lies below the run directory, which all ranks share."""
        if not self._root or not self._training.active or isinstance(path, int):
            return None
        try:
            real = os.path.realpath(os.fsdecode(path))
        except (TypeError, ValueError):
            return None
        return real if real.startswith(self._root) and "__pycache__" not in real else None

    def open(self, original: Any, file: Any, mode: Any = "r", *values: Any, **keywords: Any) -> Any:
        place = self._shared_path(file) if isinstance(mode, str) else None
        if place is not None:
            if _WRITING.intersection(mode):
                file = self._own_path(place, mode, original)
            elif place in self._beside:
                file = self._beside[place]
            else:
                self._await(place)
        return original(file, mode, *values, **keywords)

    def _own_path(self, place: str, mode: str, open_file: Any) -> str:
        """Where this rank writes what belongs at `place`."""
        own = self._beside.get(place)
        if own is None:
            own = self._beside[place] = os.path.join(self._own_directory(), str(len(self._beside)))
            if "r" in mode and os.path.exists(place):
                with open_file(place, "rb") as source, open_file(own, "wb") as target:
                    target.write(source.read())
        return own

    def _sweep_later(self) -> None:
        import atexit

        mine = os.getpid()

        def sweep() -> None:
            if os.getpid() == mine:
                shutil.rmtree(self._directory, ignore_errors=True)

        atexit.register(sweep)

    def save(self, original: Any, obj: Any, f: Any, *values: Any, **keywords: Any) -> None:
        if not self._training.active or not isinstance(f, (str, os.PathLike)):
            original(obj, f, *values, **keywords)
            return
        if self._training.used and not self._leaves:
            self._leave_later()
        name = os.path.realpath(os.fspath(f))
        count = self._saves[name] = self._saves.get(name, 0) + 1
        if self._training.rank == 0:
            original(obj, f, *values, **keywords)
            self._announce(name, count)
        elif self._training.used:
            self._beside.pop(name, None)
        else:
            original(obj, self._own_path(name, "wb", builtins.open), *values, **keywords)

    def load(self, original: Any, f: Any, *values: Any, **keywords: Any) -> Any:
        if self._training.active and isinstance(f, (str, os.PathLike)):
            name = os.path.realpath(os.fspath(f))
            if name in self._beside:
                f = self._beside[name]
            else:
                self._await(name)
        return original(f, *values, **keywords)

    def _leave_later(self) -> None:
        """Where a rank fails, the others need nothing any more."""
        import atexit

        self._leaves = True

        def leave() -> None:
            if self._training.active and not hasattr(sys, "last_value"):
                self._training.world.wait_for_others()

        atexit.register(leave)

    def _announce(self, name: str, count: int) -> None:
        if self._training.used:
            self._training.world.store.set(f"worldsize/saved/{name}", str(count))

    def _await(self, name: str) -> None:
        """Until rank 0 has written what this rank has not, as often as it would have been written here."""
        count = self._saves.get(name, 0)
        if not count or not self._training.rank or not self._training.used:
            return
        import time

        key = f"worldsize/saved/{name}"
        self._training.world.store.wait([key])
        while int(self._training.world.store.get(key)) < count:
            time.sleep(0.05)

    def quiet_events(self, module: Any) -> None:
        """TensorBoard's events are rank 0's."""
        replace(module.SummaryWriter, "__init__", self._init_writer)

    def _init_writer(self, original: Any, writer: Any, log_dir: Any = None, *values: Any, **keywords: Any) -> None:
        original(writer, self._own_directory(), *values, **keywords)

    def _own_directory(self) -> str:
        if not self._directory:
            import tempfile

            self._directory = tempfile.mkdtemp(prefix=f"worldsize-rank-{self._training.rank}-")
            self._sweep_later()
        return self._directory

    def make_directory(self, original: Any, name: Any, *values: Any, **keywords: Any) -> None:
        """All ranks make the same directory: one of them is first."""
        try:
            original(name, *values, **keywords)
        except FileExistsError:
            if self._shared_path(name) is None or not os.path.isdir(name):
                raise

    def rename(self, original: Any, path: Any, other: Any, **keywords: Any) -> None:
        """What rank 0 has saved is there under another name."""
        original(path, other, **keywords)
        name = self._count_move(path, other)
        if name:
            self._announce(name, self._saves[name])

    def _count_move(self, path: Any, *others: Any) -> str:
        """The new name of what `torch.save` has made, counted alike by all ranks; empty for anything else."""
        if not others or self._saved_name(path) is None:
            return ""
        name = os.path.realpath(os.fsdecode(others[0]))
        self._saves[name] = self._saves.get(name, 0) + 1
        return name

    def _saved_name(self, path: Any) -> str | None:
        if not self._saves or not self._training.active or not isinstance(path, (str, os.PathLike)):
            return None
        name = os.path.realpath(os.fsdecode(path))
        return name if name in self._saves else None

    def _is_skipped(self, path: Any) -> bool:
        """Whether `torch.save` has left it to rank 0."""
        name = self._saved_name(path)
        return name is not None and name not in self._beside

    def copy_mode(self, original: Any, source: Any, target: Any, **keywords: Any) -> None:
        """Of a copy that lies beside, there is no mode to set."""
        if self._shared_path(target) not in self._beside:
            original(source, target, **keywords)

    def remove(self, original: Any, path: Any, *values: Any, **keywords: Any) -> None:
        """What rank 0 removes or renames."""
        skipped, name = self._is_skipped(path), self._count_move(path, *values)
        if skipped:
            self._beside.pop(name, None)
            return
        place = self._shared_path(path) if not keywords.get("dir_fd") else None
        if place is None:
            original(path, *values, **keywords)
        elif place in self._beside and values:
            self._beside[os.path.realpath(os.fsdecode(values[0]))] = self._beside.pop(place)
        else:
            self._beside.pop(place, None)
