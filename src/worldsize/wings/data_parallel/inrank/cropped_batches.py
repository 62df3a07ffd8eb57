"""Batches that a script draws itself, as language models do. Each rank gets its part of them, too.

    starts = torch.randint(len(data) - length, (size,))
    x = torch.stack([data[start : start + length] for start in starts])

A batch is a stack, in a function, of as many tensors as the function has just drawn numbers. Rows that a function
selects by these numbers (`data[starts]`), or by a part of an order that it has drawn (`data[order[i : i + size]]`), are
a batch, too. This applies only inside a loop that trains, with gradients, and if no loader provides batches. A script
that reads its own rank is left unchanged.
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
"""Names of a module that divides its batches itself."""
_LOOKING_UP = ("os.py", "_collections_abc.py", "<frozen os>", "<frozen _collections_abc>")
"""The files of the functions that look up a variable."""


class _Draw(NamedTuple):
    """A draw of random numbers. `numbers` were drawn in a call of a function, which `frame` and `code` identify.
    `is_shared` means that part of a batch was taken by them."""

    numbers: Any
    frame: int
    code: Any
    is_shared: bool = False


class CroppedBatches:
    """The detection of batches that a script draws itself. `take` returns this rank's part of a tensor along its first
    dimension. Its second argument is whether another tensor of the same batch was taken before."""

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
        """Stop data parallelism, with a notice, if the script has read its own rank (RANK or WORLD_SIZE). Return
        whether the script has read it."""
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
        """Record random numbers that the script has drawn and that may select the samples of a batch. They are None
        before a part is cut out of a drawn order."""
        self._draw = None
        frame = user_frame() if self._is_possible() else None
        if frame is None or not _SHARING.isdisjoint(frame.f_globals):
            return
        if numbers is not None and numbers.dim() == 1 and len(numbers) > 1:
            self._draw = _Draw(numbers, id(frame), frame.f_code)
        if self._order is not None or self._draw is not None:
            self._follower.watch_rows(self._order, self._draw and self._draw.numbers, self._take_rows)

    def _take_rows(self, found: Any, of_order: bool) -> Any:
        """Return the result `found` of an indexing. If numbers were cut out of a drawn order (`of_order`), record them.
        If rows were selected by drawn numbers, return only this rank's part of the rows."""
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
        """Return this rank's rows of a batch that the script made in the same function call in which it drew the
        batch's numbers. Return the tensor unchanged outside of a loop that trains, and if it requires a gradient,
        because it is then not a batch."""
        frame = user_frame() if self._is_possible() and not batch.requires_grad else None
        if frame is None or (id(frame), frame.f_code) != (draw.frame, draw.code):
            return batch
        if not (draw.is_shared or is_in_training_loop(frame)) or self.leave_alone():
            return batch
        self._draw = draw._replace(is_shared=True)
        return self._take(batch, draw.is_shared)
