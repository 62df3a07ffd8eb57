"""Functions of torch with special rules: those that split a batch, count its positions, or differentiate."""

from __future__ import annotations

from typing import Any

import torch

from .batch_size import BatchSize
from .call import Call
from .collated_slices import rows_of
from .indexing import Indexing
from .parts import MEAN, OPEN, ROWS, SUM, WHOLE, Part, PartTable, mapped, tensors_in
from .tensor_rules import TensorRules
from .whole_batch import WholeBatch


class SpecialFunctions:
    def __init__(self, ranks: int, table: PartTable, whole: WholeBatch, rules: TensorRules, indexing: Indexing) -> None:
        self._ranks = ranks
        self._table = table
        self._whole = whole
        self._rules = rules
        self._indexing = indexing
        self._functions = {
            **dict.fromkeys(("unbind", "chunk", "split", "tensor_split"), self._pieces),
            "arange": self._arange,
            "randperm": self._permutation,
            "grad": self._differentiate,
        }

    def __contains__(self, name: str) -> bool:
        return name in self._functions

    def run(self, name: str, function: Any, args: Any, kwargs: Any) -> Any:
        """Run the torch function with the special rule of its name, record the relation of its result to the whole
        batch, and return the result."""
        return self._functions[name](name, function, args, kwargs)

    def _pieces(self, name: str, function: Any, args: Any, kwargs: Any) -> Any:
        """Return the pieces of a tensor that torch's `unbind`, `chunk`, `split` or `tensor_split` makes, as in `for row
        in tensor`. Along the batch's dimension they are pieces of the whole batch."""
        tensor, part = args[0], self._table.get(args[0])
        place = 1 if name == "unbind" else 2
        dim = kwargs.get("dim", args[place] if len(args) > place else 0)
        if part is None or part.kind != ROWS or dim % tensor.dim() != part.dim:
            return self._rules.run("getitem", False, function, args, kwargs)
        call = Call(self._table, name, False, function, args, kwargs)
        if name == "unbind" or len(part.blocks) == 1:
            return self._whole.run(call)
        lengths = _piece_lengths(call, part.whole_length(self._ranks))
        index, start, pieces = [slice(None)] * tensor.dim(), 0, []
        for length in lengths:
            index[part.dim] = slice(start, start + length)
            pieces.append(self._indexing.get(torch.Tensor.__getitem__, tensor, tuple(index)))
            start += length
        return tuple(pieces)

    def _differentiate(self, name: str, function: Any, args: Any, kwargs: Any) -> Any:
        """Execute `torch.autograd.grad(loss, x)` on the rank's slice, record the relation of the gradients to those of
        the whole batch, and return them."""
        result = function(*args, **kwargs)
        roots = [self._table.get(each) for each in tensors_in(args[:1] or kwargs.get("outputs"))]
        kinds = {part.kind for part in roots if part is not None}
        inputs = list(tensors_in(args[1] if len(args) > 1 else kwargs.get("inputs")))
        found = list(tensors_in(result))
        if not kinds:
            return result
        for each, source in zip(found, inputs):
            part = self._table.get(source)
            if len(found) != len(inputs) or len(kinds) != 1 or not kinds <= {SUM, MEAN, ROWS, WHOLE}:
                self._table.put(each, Part(OPEN))
            elif part is not None and kinds <= {SUM, ROWS}:
                self._table.put(each, part)
            elif part is None:
                self._table.put(each, Part(SUM if kinds <= {SUM, ROWS} else MEAN))
            else:
                self._table.put(each, Part(OPEN))
        return result

    def _permutation(self, name: str, function: Any, args: Any, kwargs: Any) -> Any:
        """Execute `torch.randperm(len(x))`. If the length is that of a batch, the order is that of the whole batch, and
        each rank gets the part of its slice."""
        size = args[0] if args else kwargs.get("n")
        made = function(*mapped(args, _plain), **mapped(kwargs, _plain))
        if type(size) is not BatchSize or int(size) != size.local * self._ranks:
            return made
        part = rows_of(size.local)
        return self._table.put(self._whole.own_rows(made, part), part)

    def _arange(self, name: str, function: Any, args: Any, kwargs: Any) -> Any:
        """Execute `torch.arange(len(x))`. If the length is that of a batch, the result contains the positions of the
        slice's samples in the whole batch."""
        made = function(*mapped(args, _plain), **mapped(kwargs, _plain))
        last = args[-1] if args else kwargs.get("end")
        if type(last) is not BatchSize or len(made) != int(last) or int(last) != last.local * self._ranks:
            return made
        part = Part(ROWS, 0, ((last.local, True),), positions=True)
        return self._table.put(self._whole.own_rows(made, part), part)


def _piece_lengths(call: Call, length: int) -> list[int]:
    """Return the lengths of the pieces into which a call of `chunk`, `split` or `tensor_split` splits a batch of
    `length` samples."""
    sizes = call.args[1] if len(call.args) > 1 else next(iter(call.kwargs.values()))
    return [len(each) for each in call.function(torch.empty(length, device="meta"), sizes)]


def _plain(value: Any) -> Any:
    return int(value) if type(value) is BatchSize else value
