"""Computations on the whole batch. Every rank computes the same, with the gradient of its own samples."""

from __future__ import annotations

from typing import Any, Callable

import torch

from ..loss_graph import IS_WHOLE
from ..rank_state import Training, user_place
from .call import Call
from .exchange import Exchange, NotWhole
from .parts import COMPUTED, OPEN, ROWS, SUM, WEIGHTED, WHOLE, Frozen, Part, PartTable, mapped, tensors_in
from .row_layout import own_rows


class WholeBatch:
    """The computations of a rank on the whole batch. `read_loss` returns the part of a loss from the graph that
    autograd has recorded."""

    def __init__(
        self, training: Training, table: PartTable, exchange: Exchange, read_loss: Callable[[Any], Part | None]
    ) -> None:
        self._training = training
        self._table = table
        self._exchange = exchange
        self._read_loss = read_loss
        self._made: dict[int, tuple[Any, tuple[int, bool], Any]] = {}

    def forget(self) -> None:
        """Forget the cached values that were combined from all ranks, because a new batch begins."""
        self._made.clear()

    def run(self, call: Call) -> Any:
        """Run a torch function on the whole batch's values of its arguments, and return the result. If that is not
        possible, return the result for the rank's slice and record it as OPEN."""
        if not self._exchange.is_possible():
            return self.note_open(call.run_own())
        try:
            whole = call.changed(self.make)
        except NotWhole:
            return self.note_open(call.run_own())
        target = call.args[0] if call.in_place else None
        if target is not None and whole.args[0] is not target:
            return self._change(target, whole)
        result = whole.function(*whole.args, **whole.kwargs)
        if call.has_gradient:
            for each in tensors_in(result):
                if each.requires_grad:
                    self.note(each)
        return result

    def _change(self, target: Any, whole: Call) -> Any:
        """Run the in-place function `whole` on the whole batch's values, change the rank's tensor `target` in the same
        way, and return `target`."""
        part = self._table.get(target)
        with torch.no_grad():
            changed = whole.function(*whole.args, **whole.kwargs)
            if part is not None and part.kind == ROWS:
                return target.copy_(self.own_rows(changed, part))
            target.copy_(changed)
        self._table.drop(target)
        return target

    def note(self, tensor: Any) -> Any:
        """Record a tensor that every rank has computed from the whole batch in the same way, with the gradient of its
        own samples. Return the tensor."""
        if tensor.grad_fn is not None:
            tensor.grad_fn.metadata[IS_WHOLE] = True
        return self._table.put(tensor, Part(WHOLE))

    def make(self, value: Any) -> Any:
        """Return the whole batch's value of a tensor of the rank's slice, with its gradient; the result is cached.
        Return any other value unchanged. Raise NotWhole if it cannot be combined."""
        part = self._table.get(value) if isinstance(value, torch.Tensor) else None
        if part is None or part.kind in (OPEN, WHOLE):
            return value
        tracked = torch.is_grad_enabled() and value.requires_grad
        known = self._made.get(id(value))
        if known is not None and known[0] is value and known[1] == (value._version, tracked):
            return known[2]
        if part.kind == COMPUTED and tracked:
            found = self._computed_again(part)
        else:
            found = self._exchange.whole_with_gradient(value, part)
        if tracked:
            self.note(found)
        self._made[id(value)] = (value, (value._version, tracked), found)
        return found

    def make_in(self, value: Any) -> Any:
        """Return the value with each tensor in it replaced by that of the whole batch."""
        return mapped(value, self.make)

    def _computed_again(self, part: Part) -> Any:
        """Compute a value, as the recipe in `part` states, from the whole batch's sums and means again, with the
        gradient. Raise NotWhole if an argument has changed since."""

        def thaw(each: Any) -> Any:
            if not isinstance(each, Frozen):
                return each
            if each.live._version != each.version:
                raise NotWhole
            return self.make(each.live)

        function, args, kwargs = part.recipe
        return function(*mapped(args, thaw), **mapped(kwargs, thaw))

    def own_rows(self, whole: Any, part: Part) -> Any:
        """Return this rank's rows of a whole batch's tensor."""
        return own_rows(whole, part, self._training.rank, self._training.size)

    def note_open(self, result: Any) -> Any:
        """Record that the tensors in a function's result depend on the rank's slice in an unknown way, except for
        losses whose graph determines their relation to the whole batch. Return the result."""
        for each in tensors_in(result):
            read = self._read_loss(each) if each.requires_grad and each.dim() == 0 else None
            if read is not None and read.kind in (WEIGHTED, SUM):
                self._table.put(each, read)
                continue
            if each.requires_grad and each.dim() == 0:
                self._training.show_notice(
                    f"{user_place()}: the loss is computed from each rank's slice, and the mean of these is used"
                )
            self._table.put(each, Part(OPEN))
        return result
