"""The result of `len(batch)` in the user's modules: the size of the whole batch, or that of the slice where torch
creates tensors with it.

Python converts the result of `__len__` into a plain number. For this reason, the user's modules get a separate `len`.
"""

from __future__ import annotations

import builtins
import sys
from typing import Any, Callable

import torch

from ..rank_state import Training, is_user_code, user_frame, user_place
from .batch_size import made_size
from .parts import ROWS, PartTable


class _Samples:
    """A sequence of samples. `whole` is their number in the whole batch."""

    whole = 0
    training: Any = None

    def __iter__(self) -> Any:
        frame = sys._getframe(1)
        if is_user_code(frame.f_code.co_filename):
            self.training.show_notice(
                f"{frame.f_code.co_filename}:{frame.f_lineno}: the samples iterated here are those of rank 0"
            )
        return super().__iter__()  # type: ignore[misc]

    def __reduce_ex__(self, protocol: Any) -> Any:
        plain = list if isinstance(self, list) else tuple
        return plain, (list(super().__iter__()),)  # type: ignore[misc]


class SampleList(_Samples, list):  # type: ignore[type-arg]
    """The slice's part of a list in a batch, for example of texts."""


class SampleTuple(_Samples, tuple):  # type: ignore[type-arg]
    """The slice's part of a tuple in a batch."""


_SAMPLES: dict[type, Any] = {list: SampleList, tuple: SampleTuple}


class Lengths:
    """The replacement of `len` in the user's modules. `is_following` returns whether sizes of the batch are recognised;
    inside models, they are plain numbers."""

    def __init__(self, training: Training, table: PartTable, is_following: Callable[[], bool]) -> None:
        self._training = training
        self._table = table
        self._is_following = is_following
        self._seen: set[int] = set()
        self._count = 0

    def install_in_modules(self) -> None:
        """Install the replacement of `len` in those modules of the user that were imported since the last call."""
        frame = user_frame()
        if frame is not None:
            self._install_in(frame.f_globals)
        if len(sys.modules) == self._count:
            return
        self._count = len(sys.modules)
        for module in list(sys.modules.values()):
            file = getattr(module, "__file__", None)
            if isinstance(file, str) and file.endswith(".py") and is_user_code(file):
                self._install_in(vars(module))

    def _install_in(self, names: dict[str, Any]) -> None:
        if id(names) not in self._seen:
            self._seen.add(id(names))
            names.setdefault("len", self.length)

    def with_lists(self, data: Any, local: int, total: int) -> Any:
        """Return a rank's slice of a batch with its lists and tuples of samples replaced by ones that know their length
        in the whole batch (`total`). `local` is the number of samples in the slice."""
        kind = _SAMPLES.get(type(data))
        if kind is not None and len(data) == local and not any(isinstance(each, torch.Tensor) for each in data):
            made = kind(data)
            made.whole, made.training = total, self._training
            return made
        if type(data).__module__ == "numpy" and getattr(data, "shape", ())[:1] == (local,):
            self._training.show_notice(
                f"{user_place()}: the batch has NumPy arrays: values computed from them are from rank 0's slice"
            )
        if type(data) in (list, tuple):
            return type(data)(self.with_lists(each, local, total) for each in data)
        if type(data) is dict:
            return {key: self.with_lists(each, local, total) for key, each in data.items()}
        return data

    def length(self, value: Any) -> int:
        """Return `len(value)`. If this is the size of a rank's slice of a batch, return the size of the whole batch as
        a BatchSize."""
        found = builtins.len(value)
        if not self._is_following():
            return found
        if isinstance(value, torch.Tensor):
            part = self._table.get(value)
            if part is not None and part.kind == ROWS and part.dim == 0 and self._training.active:
                return made_size(part.whole_length(self._training.size), part.length)
        elif isinstance(value, _Samples):
            return made_size(value.whole, found)
        return found
