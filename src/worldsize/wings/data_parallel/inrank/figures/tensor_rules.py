"""Rules that run functions of torch on a rank's tensors, and record how the results relate to the whole batch.

A function that works sample by sample is run on the slice. Any other function (a median, a sorting, the similarities of
all pairs) is run on the whole batch, by every rank in the same way, with the gradient of its own samples. The exchanges
between the ranks must not depend on values that differ between them.
"""

from __future__ import annotations

from typing import Any, Callable, ContextManager

import torch

from ..loss_graph import IS_SUM
from ..rank_state import Training, user_place
from .batch_size import BatchSize, made_size
from .call import Call
from .cut_arguments import Cutter
from .exchange import Exchange
from .function_names import ALIKE, ARITHMETIC, PRODUCTS, RANDOM, VIEWS, mixed_dim
from .parts import (
    MEAN,
    OPEN,
    ROWS,
    SELECTED,
    SUM,
    WEIGHTED,
    WHOLE,
    Part,
    PartTable,
    mapped,
    tensors_in,
)
from .reduced_tensors import can_wait, linear_part, reduction, summed_call
from .row_layout import batch_dim, blocks_of, product, scaled_dims
from .whole_batch import WholeBatch
from .whole_shapes import SELECTED_LENGTH, WholeShapes


class TensorRules:
    """The rules of one rank for running torch functions on its tensors. `read_loss` returns the part of a loss from the
    graph that autograd has recorded. Within the context `shared_numbers`, random numbers are the same on all ranks."""

    def __init__(
        self,
        training: Training,
        table: PartTable,
        exchange: Exchange,
        whole: WholeBatch,
        read_loss: Callable[[Any], Part | None],
        shared_numbers: Callable[[], ContextManager[None]],
    ) -> None:
        self._training = training
        self._ranks = training.size
        self._table = table
        self._exchange = exchange
        self._whole = whole
        self._read_loss = read_loss
        self._shared_numbers = shared_numbers
        self._shapes = WholeShapes(table, training.size)
        self.cutter = Cutter(training, table)

    def run(self, name: str, in_place: bool, function: Any, args: Any, kwargs: Any) -> Any:
        """Run a torch function by the rule for its arguments, on the rank's slice or on the whole batch, record the
        relation of the result to the whole batch, and return the result."""
        call = Call(self._table, name, in_place, function, args, kwargs)
        kinds = call.kinds
        if not kinds:
            return self._make(call)
        if OPEN in kinds:
            return self._whole.note_open(call.run_own())
        if name in RANDOM and ROWS in kinds:
            with self._shared_numbers(), torch.set_grad_enabled(call.has_gradient and call.name == "_standard_gamma"):
                return self._run_mixing(call)
        if WHOLE in kinds:
            return self._whole.run(call)
        if SELECTED in kinds:
            return self._run_selected(call)
        return self._run_rows(call) if ROWS in kinds else self._run_reduced(call)

    def _make(self, call: Call) -> Any:
        """Run a torch function that gets no tensor of a batch, perhaps with the size of a batch, such as
        `torch.zeros(len(x), 3)`, and return the tensor. With the size of a batch, it has the rows of the rank's slice.
        """
        if call.name in VIEWS and _has_whole_rows(call):
            return call.function(*call.args, **call.kwargs)
        try:
            made = call.run_own()
        except RuntimeError:
            if call.name not in VIEWS:
                raise
            return call.function(*call.args, **call.kwargs)
        if isinstance(made, torch.Tensor) and call.name not in ARITHMETIC and made not in self._table:
            shapes = self._shapes.infer(call.function, call.args, call.kwargs)
            dims = scaled_dims(made, shapes[0]) if shapes else []
            if shapes and len(dims) > 1:  # for example all pairs of samples
                return call.function(*call.args, **call.kwargs)
            if shapes and len(dims) == 1 and shapes[0][dims[0]] == made.shape[dims[0]] * self._ranks:
                self._table.put(made, Part(ROWS, dims[0], ((int(made.shape[dims[0]]), True),)))
        return made

    def _run_reduced(self, call: Call) -> Any:
        """Run a torch function of tensors that were reduced over the batch, such as sums and means, record the relation
        of the result to the whole batch, and return it."""
        if call.in_place and call.args[0] not in self._table and call.args[0].dim():
            return self._whole.run(call)  # a gradient, or a weight
        part = linear_part(call)
        if part is None and (not call.has_gradient or not can_wait(call)):
            return self._whole.run(call)
        found = part or call.recipe()
        result = call.run_own()
        return self._table.put(result, found) if isinstance(result, torch.Tensor) else self._whole.note_open(result)

    def _run_rows(self, call: Call) -> Any:
        if call.in_place and call.args[0] not in self._table and call.args[0].shape != self._widest(call).shape:
            return self._whole.run(call)
        if not call.kinds <= {ROWS}:
            if any(self._is_reduced(each) and each.requires_grad for each in call.tensors) and call.has_gradient:
                return self._whole.run(call)
            call = call.changed(self.resolved)
        if call.name not in PRODUCTS:
            call = self.cutter.cut_arguments(call)
        rows = self._widest(call)
        part = self._table.get(rows)
        assert part is not None
        if call.name in ALIKE:
            result = call.run_own()
            return self._table.put(result, part) if isinstance(result, torch.Tensor) else result
        mixed = mixed_dim(call.name, call.args, call.kwargs, rows.dim())
        if mixed is None or part.dim in mixed or self._differ(call):
            return self._run_mixing(call)
        shapes = self._shapes.infer(call.function, call.args, call.kwargs)
        if shapes is None and call.name not in PRODUCTS and self.cutter.note_slices(call):
            shapes = self._shapes.infer(call.function, call.args, call.kwargs)
        if shapes is None:
            return self._run_mixing(call)
        if call.name in VIEWS:
            call = self.cutter.with_own_sizes(call, rows, part)
        beside_whole = False
        try:
            result = call.run_own()
        except (RuntimeError, ValueError, IndexError):
            if call.in_place or len(call.parts) == len(call.tensors):
                raise
            beside_whole = True
        if beside_whole:
            return self._whole.run(call)
        return self._note_rows(call, result, shapes, rows, part)

    def _note_rows(self, call: Call, result: Any, shapes: Any, rows: Any, part: Part) -> Any:
        made = list(tensors_in(result))
        dims = [scaled_dims(each, shape) for each, shape in zip(made, shapes)]
        is_padded = any(each.padded for each in call.parts)
        if len(shapes) != len(made) or (not is_padded and any(len(each) > 1 for each in dims)):
            return self._whole.run(call)  # for example similarities of all pairs of samples
        if not any(dims):
            return self._note_reduced(call, result, part)
        padded = self._shapes.padded_dims(call.function, call.args, call.kwargs) if is_padded else None
        known = {size for each in call.parts for _, size in each.padded}
        for place, (each, found, whole) in enumerate(zip(made, dims, shapes)):
            if found:
                dim = batch_dim(found, each, whole, part, self._ranks)
                wide = padded[place] if padded else {0} if is_padded else set()
                wide |= {other for other, size in enumerate(whole) if other != dim and size in known}
                sizes = tuple((other, whole[other]) for other in sorted(wide))
                self._table.put(each, Part(ROWS, dim, blocks_of(call, rows, part, each, dim), padded=sizes))
        return result

    def _note_reduced(self, call: Call, result: Any, part: Part) -> Any:
        """Record the relation to the whole batch of a torch function's result that has no row for each sample, such as
        a loss, and return the result. If the relation is not known, run the function on the whole batch instead."""
        if not isinstance(result, torch.Tensor):
            return self._whole.run(call) if any(True for _ in tensors_in(result)) else result
        read = self._read_loss(result) if result.requires_grad and result.dim() == 0 else None
        kind = reduction(call, part)
        if read is None and kind is None:
            return self._whole.run(call)
        found = read or Part(kind or SUM)
        of_all = found.kind == WEIGHTED and len(call.args) > 1 and float(found.weight) == product(call.args[1].shape)
        if part.padded and (found.kind == MEAN or of_all):
            self._training.show_notice(
                f"{user_place()}: a mean over padded positions, which differ in each slice of the batch"
            )
        if found.kind == SUM and result.grad_fn is not None:
            result.grad_fn.metadata[IS_SUM] = True
        return self._table.put(result, found)

    def _run_mixing(self, call: Call) -> Any:
        """Run a torch function that mixes samples on the whole batch, and return its result. Without gradients, this
        rank's rows are cut out of the result."""
        rows = self._widest(call)
        part = self._table.get(rows)
        if call.has_gradient or part is None or part.kind != ROWS or not part.is_even:
            return self._whole.run(call)
        length = part.whole_length(self._ranks)
        result = self._whole.run(call)

        def own_of(made: Any) -> Any:
            is_rows = isinstance(made, torch.Tensor) and made.dim() == rows.dim() and made not in self._table
            if not is_rows or made.shape[part.dim] != length:
                return made
            return self._table.put(self._whole.own_rows(made, part), part._replace(positions=False))

        return mapped(result, own_of)

    def _run_selected(self, call: Call) -> Any:
        """Run a torch function of rows of the batch that a mask has selected, and return its result. Each rank has a
        different number of such rows."""
        mixed = any(mixed_dim(call.name, call.args, call.kwargs, each.dim()) != () for each in call.tensors)
        if call.in_place or mixed or (call.has_gradient and not call.kinds <= {SELECTED}):
            return self._whole.run(call)
        call = call.changed(self.resolved)
        if call.name in ("sum", "count_nonzero") and len(call.args) == 1 and not call.kwargs:
            return self._note_sum(call.run_own())
        summed = summed_call(call)
        if summed is not None and self._exchange.is_possible():
            (sum_call, count) = summed
            whole = sum(row[0] for row in self._exchange.gather_numbers([float(count)]))
            return self._note_sum(sum_call.run_own() / whole)
        shapes = self._shapes.infer(call.function, call.args, call.kwargs)
        if shapes is not None and len(shapes) == 1 and shapes[0].count(SELECTED_LENGTH) == 1:
            return self._table.put(call.run_own(), Part(SELECTED, shapes[0].index(SELECTED_LENGTH)))
        return self._whole.run(call)

    def _note_sum(self, made: Any) -> Any:
        """Record the tensor `made`, a rank's sum over its slice that may be divided by a number of the whole batch, as
        a sum over ranks, and return it."""
        if made.grad_fn is not None:
            made.grad_fn.metadata[IS_SUM] = True
            for node, _ in made.grad_fn.next_functions:
                if node is not None:
                    node.metadata[IS_SUM] = True
        return self._table.put(made, Part(SUM))

    def resolved(self, value: Any) -> Any:
        """Return the whole batch's value of a number that was reduced over the batch. Return any other value
        unchanged."""
        return self._whole.make(value) if self._is_reduced(value) and self._exchange.is_possible() else value

    def _is_reduced(self, value: Any) -> bool:
        part = self._table.get(value) if isinstance(value, torch.Tensor) else None
        return part is not None and part.kind not in (ROWS, SELECTED, OPEN, WHOLE)

    def _widest(self, call: Call) -> Any:
        """Return the tensor with the most dimensions among the arguments of a call that are rows of the rank's
        slice."""
        rows = [
            each for each in call.tensors for part in (self._table.get(each),) if part is not None and part.kind == ROWS
        ]
        return max(rows, key=lambda each: each.dim())

    def _differ(self, call: Call) -> bool:
        """Return whether the arguments of a torch function are rows of the batch in different orders, for example those
        of two joined slices and those of one."""
        blocks = {part.blocks for part in call.parts if part.kind == ROWS}
        if len(blocks) < 2 or call.name in ("cat", "concat", "concatenate"):
            return False
        return len({sum(length for length, _ in each) for each in blocks}) < len(blocks)

    def note_results(self, made: Any, args: Any, kwargs: Any) -> Any:
        """Record the relation of a model's results to the whole batch. They are rows of the slice if they have as many
        rows as one of the arguments. Return the results, with numbers that equal the slice's size replaced by the
        batch's size."""
        parts = [(each, part) for each in tensors_in((args, kwargs)) for part in (self._table.get(each),) if part]
        kinds = {part.kind for _, part in parts}
        rows = [each for each in parts if each[1].kind == ROWS]
        if not kinds:
            return made
        for each in tensors_in(made):
            if each in self._table:
                continue
            if rows and kinds == {ROWS}:
                self._table.put(each, self._part_of_result(each, *rows[0]))
            elif kinds == {WHOLE}:
                if each.requires_grad:
                    self._whole.note(each)
            else:
                self._table.put(each, Part(OPEN))
        if not rows or isinstance(made, torch.Tensor):
            return made
        size, part = int(rows[0][0].shape[rows[0][1].dim]), rows[0][1]
        return mapped(
            made,
            lambda each: (
                made_size(part.whole_length(self._ranks), size) if type(each) is int and each == size else each
            ),
        )

    def _part_of_result(self, made: Any, rows: Any, part: Part) -> Part:
        size = rows.shape[part.dim]
        dims = [dim for dim in (part.dim, 0, *range(made.dim())) if dim < made.dim() and made.shape[dim] == size]
        if dims:
            return Part(ROWS, dims[0], part.blocks)
        if made.dim() and size > 1 and made.shape[0] % size == 0:
            times = int(made.shape[0]) // int(size)
            runs = tuple((length * times, shared) for length, shared in part.blocks)
            if part.dim:
                runs = part.blocks * times
            return Part(ROWS, 0, runs)
        read = self._read_loss(made) if made.dim() == 0 and made.requires_grad else None
        return read or Part(OPEN)


def _has_whole_rows(call: Call) -> bool:
    """Return whether the tensor in a call of a view, such as `x.view(len(x), -1)`, has as many rows as the whole batch,
    whose size is among the arguments."""
    sizes = [size for each in call.args[1:] for size in (each if isinstance(each, (list, tuple)) else (each,))]
    rows = call.tensors[0].shape[:1] if call.tensors else ()
    return any(type(size) is BatchSize and tuple(rows) == (int(size),) for size in sizes)
