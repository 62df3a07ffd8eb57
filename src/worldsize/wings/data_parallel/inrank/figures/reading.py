"""Conversion of a batch's tensors into Python values: the script gets the whole batch's value, or a notice names its
line."""

from __future__ import annotations

from typing import Any

import torch

from ..rank_state import Training, user_place
from .batch_size import made_size
from .exchange import Exchange, NotWhole
from .parts import OPEN, ROWS, SELECTED, WHOLE, Part, PartTable, mapped
from .row_layout import product

_TEXTS = ("__repr__", "__str__", "__format__")


class Reading:
    def __init__(self, training: Training, table: PartTable, exchange: Exchange) -> None:
        self._training = training
        self._table = table
        self._exchange = exchange

    def read(self, name: str, function: Any, args: Any, kwargs: Any) -> Any:
        """Run a function that makes a Python value of a tensor, such as `item` or `__repr__`, with the whole batch's
        values instead of those of the rank's slice, and return its result."""
        found = function(*mapped(args, self.whole_or_own), **mapped(kwargs, self.whole_or_own))
        if name in _TEXTS and args[0].grad_fn is not None:
            found = found.replace("requires_grad=True", f"grad_fn=<{type(args[0].grad_fn).__name__}>")
        return found

    def whole_or_own(self, value: Any) -> Any:
        """Return the whole batch's value of a rank's tensor. If it is not known, show a notice and return the rank's
        own value. Return any other value unchanged."""
        part = self._table.get(value) if isinstance(value, torch.Tensor) else None
        if part is None or part.kind == WHOLE:
            return value
        if part.kind == OPEN or not self._exchange.is_possible():
            self.name_line()
            return value
        try:
            found = self._exchange.whole(value, part)
        except NotWhole:
            self.name_line()
            return value
        if not isinstance(found, torch.Tensor):
            found = torch.as_tensor(found)
        wants = torch.is_grad_enabled() and value.requires_grad and found.is_floating_point()
        return found.requires_grad_() if wants else found

    def name_line(self) -> None:
        self._training.show_notice(f"{user_place()}: the value computed here is from rank 0's slice of the batch")

    def size(self, name: str, function: Any, args: Any, kwargs: Any) -> Any:
        """Return the whole batch's size of a rank's tensor `x` for `x.size()`, `x.shape`, `len(x)` and `x.numel()`."""
        tensor = args[0]
        found, part = function(*args, **kwargs), self._table.get(tensor)
        if part is None or part.kind not in (ROWS, SELECTED):
            return found
        local = int(tensor.shape[part.dim])
        if part.kind == ROWS:
            whole = part.whole_length(self._training.size)
        elif self._exchange.is_possible():
            whole = int(sum(row[0] for row in self._exchange.gather_numbers([local])))
        else:
            return found
        if part.padded and name != "__len__":
            return self._padded_size(name, found, args, kwargs, part, whole)
        if name == "__len__":
            return whole if part.dim == 0 else found
        if isinstance(found, int):
            if name in ("numel", "nelement"):
                return made_size(found // local * whole if local else found, found)
            dim = kwargs.get("dim", args[1] if len(args) > 1 else 0)
            return made_size(whole, local) if dim % tensor.dim() == part.dim else found
        sizes = list(found)
        sizes[part.dim] = made_size(whole, local)
        return torch.Size(sizes)

    def _padded_size(self, name: str, found: Any, args: Any, kwargs: Any, part: Part, whole: int) -> Any:
        """Return the size, as the function `name` reports it, that padded rows have in the whole batch. The rank's own
        rows are padded only to the longest sample of its slice. `whole` is the number of rows of the whole batch."""
        own = [int(each) for each in args[0].shape]
        sizes = list(own)
        sizes[part.dim] = whole
        for dim, size in part.padded:
            sizes[dim] = size
        if name in ("numel", "nelement"):
            return made_size(product(sizes), product(own))
        if isinstance(found, int):
            dim = kwargs.get("dim", args[1] if len(args) > 1 else 0) % len(own)
            return made_size(sizes[dim], own[dim])
        return torch.Size([made_size(*pair) for pair in zip(sizes, own)])
