"""Batches that a script draws itself, as language models do: of them, too, each rank takes its part.

    starts = torch.randint(len(data) - length, (size,))
    x = torch.stack([data[start : start + length] for start in starts])

What a function stacks of as many tensors as it has just drawn numbers is a batch, and so are rows that it takes by
these numbers (`data[starts]`), or by some of an order that it has drawn (`data[order[i : i + size]]`): inside a loop
that trains, with gradients, and where no loader gives batches. A script that looks for its own rank is unchanged.
"""

from __future__ import annotations

import os
import sys
from typing import Any, Callable, NamedTuple

import torch

from .figures.mode import BatchFollower
from .loop_purpose import is_in_training_loop
from .random_streams import is_compiling
from .rank_state import Training, is_user_code, replace, user_frame

_OWN_RANK = ("RANK", "WORLD_SIZE")
_SHARING = frozenset(("worldsize", "shard"))
"""Names of a module that shares its batches out itself."""
_LOOKING_UP = ("os.py", "_collections_abc.py", "<frozen os>", "<frozen _collections_abc>")
"""The files of the functions that look a variable up."""


class _Draw(NamedTuple):
    """`numbers`, which were drawn in a call of a function; `is_shared`: part of a batch was taken by them."""

    numbers: Any
    frame: int
    code: Any
    is_shared: bool = False


class CroppedBatches:
    """`take`: takes this rank's part of a tensor along its first dimension; its second argument is whether another
    tensor of the same batch was taken before."""

    def __init__(self, training: Training, follower: BatchFollower, take: Callable[[Any, bool], Any]) -> None:
        self._training = training
        self._follower = follower
        self._take = take
        self._order: Any = None
        self._draw: _Draw | None = None
        self._rank_reader = ""

    def install(self) -> None:
        replace(torch, "randint", self._note_draw)
        replace(torch, "randperm", self._note_order)
        replace(torch, "stack", self._stack)
        for name in ("__getitem__", "__contains__"):
            replace(type(os.environ), name, self._look_up)

    def leave_alone(self) -> bool:
        """Leave the script as it is, and say so, if it has looked for its own rank; whether it has."""
        if self._rank_reader and self._training.active:
            self._training.show_notice(
                f"{self._rank_reader}: the script looks for its rank, and makes its batches itself: it is unchanged"
            )
            self._training.stop()
            self._follower.pause()
        return bool(self._rank_reader)

    def _look_up(self, original: Any, environ: Any, name: Any) -> Any:
        if name in _OWN_RANK and not self._rank_reader:
            frame: Any = sys._getframe(2)
            while frame is not None and os.path.basename(frame.f_code.co_filename) in _LOOKING_UP:
                frame = frame.f_back
            if frame is not None and is_user_code(frame.f_code.co_filename):
                self._rank_reader = f"{frame.f_code.co_filename}:{frame.f_lineno}"
        return original(environ, name)

    def _note_draw(self, original: Any, *values: Any, **keywords: Any) -> Any:
        drawn = original(*values, **keywords)
        self._order = None
        self._begin_draw(drawn)
        return drawn

    def _note_order(self, original: Any, *values: Any, **keywords: Any) -> Any:
        order = original(*values, **keywords)
        self._order = order
        self._begin_draw(None)
        return order

    def _begin_draw(self, numbers: Any) -> None:
        """Note numbers that may be a batch's; None for none, before they are cut out of an order."""
        self._draw = None
        frame = user_frame() if self._is_possible() else None
        if frame is None or not _SHARING.isdisjoint(frame.f_globals):
            return
        if numbers is not None and numbers.dim() == 1 and len(numbers) > 1:
            self._draw = _Draw(numbers, id(frame), frame.f_code)
        if self._order is not None or self._draw is not None:
            self._follower.watch_rows(self._order, self._draw and self._draw.numbers, self._take_rows)

    def _take_rows(self, found: Any, of_order: bool) -> Any:
        """Note numbers that were cut out of an order; of rows that were taken by numbers, take the rank's part."""
        if of_order:
            self._begin_draw(found)
        elif self._draw is not None:
            return self._share(self._draw, found)
        return found

    def _is_possible(self) -> bool:
        is_open = self._training.active and not self._training.loaded
        return is_open and torch.is_grad_enabled() and not is_compiling()

    def _stack(self, original: Any, tensors: Any, dim: int = 0, **keywords: Any) -> Any:
        draw = self._draw
        if draw is None or dim != 0 or keywords or len(tensors) != len(draw.numbers):
            return original(tensors, dim, **keywords)
        return self._share(draw, original(tensors, dim))

    def _share(self, draw: _Draw, batch: Any) -> Any:
        """This rank's rows of a batch that was made where its numbers were drawn; what is trained is none."""
        frame = user_frame() if self._is_possible() and not batch.requires_grad else None
        if frame is None or (id(frame), frame.f_code) != (draw.frame, draw.code):
            return batch
        if not (draw.is_shared or is_in_training_loop(frame)) or self.leave_alone():
            return batch
        self._draw = draw._replace(is_shared=True)
        return self._take(batch, draw.is_shared)
