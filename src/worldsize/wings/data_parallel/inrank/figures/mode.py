"""The torch function mode that follows the tensors of a batch through the script's own code. torch calls it for each of
its functions.

It does not follow them inside models, optimizers and loaders, where no figures are computed and time matters.
"""

from __future__ import annotations

from contextlib import contextmanager
from functools import partial, wraps
from typing import Any, Callable, ContextManager, Iterator

import torch
from torch.optim.optimizer import register_optimizer_step_post_hook, register_optimizer_step_pre_hook
from torch.overrides import TorchFunctionMode

from ..random_streams import is_compiling
from ..rank_state import Training, is_user_code, replace
from .batch_size import BatchSize, local_number
from .collated_slices import CollatedSlices, rows_of
from .exchange import Exchange
from .function_names import LEAVING, READING, SIZES, UNTOUCHED, makes_figures, plain_name
from .indexing import Indexing
from .lengths import Lengths
from .parts import ROWS, Part, PartTable, mapped, tensors_in
from .reading import Reading
from .special_functions import SpecialFunctions
from .tensor_rules import TensorRules
from .whole_batch import WholeBatch


class BatchFollower(TorchFunctionMode):  # type: ignore[misc]
    """The torch function mode of one rank, which follows the tensors of a batch through the script. `model_part` is the
    part of the first known tensor among the inputs of the running model. `read_loss` returns the part of a loss from
    its graph; None if the graph does not determine it. Within the context `shared_numbers`, random numbers are the same
    on all ranks."""

    def __init__(
        self,
        training: Training,
        read_loss: Callable[[Any], Part | None],
        shared_numbers: Callable[[], ContextManager[None]],
    ) -> None:
        super().__init__()
        self._training = training
        self.table = PartTable()
        self.exchange = Exchange(training)
        self.whole = WholeBatch(training, self.table, self.exchange, read_loss)
        self.rules = TensorRules(training, self.table, self.exchange, self.whole, read_loss, shared_numbers)
        self.indexing = Indexing(training, self.table, self.exchange, self.whole, self.rules)
        self._special = SpecialFunctions(training.size, self.table, self.whole, self.rules, self.indexing)
        self.reading = Reading(training, self.table, self.exchange)
        self.slices = CollatedSlices(training, self.table, self.exchange)
        self.lengths = Lengths(training, self.table, self.is_following)
        self._on = self._off = False
        self._watched: tuple[Any, Any, Callable[[Any, bool], Any]] | None = None
        self._has_hooks = False
        self._known_names: dict[Any, tuple[str, bool]] = {}
        self._plain_models: dict[type, bool] = {}
        self.model_part: Part | None = None

    def install(self) -> None:
        replace(torch.nn.Module, "__call__", self._call_module)
        for name in ("register_forward_hook", "register_forward_pre_hook"):
            replace(torch.nn.Module, name, self._add_hook)
        replace(torch.optim.Optimizer, "zero_grad", self._without_following)
        replace(torch.autograd.Variable, "__new__", self.table.put_variable)
        replace(torch.Tensor, "__reduce_ex__", self._reduce)
        register_optimizer_step_pre_hook(self._begin_step)
        register_optimizer_step_post_hook(self._end_step)
        for name in ("pack_padded_sequence", "pad_packed_sequence"):
            replace(torch.nn.utils.rnn, name, self._pack)
        for owner, name in ((torch, "compile"), (torch, "vmap"), (getattr(torch, "func", torch), "vmap")):
            if hasattr(owner, name):
                replace(owner, name, self._transform)

    def follow(self, data: Any, local: int, total: int, dim: int = 0, collated: Any = None) -> Any:
        """Follow the tensors of a rank's slice `data`, with `local` of the batch's `total` samples in dimension `dim`,
        and return the slice as the script gets it. `collated` is the loader whose own function has put the samples
        together; their dimension is then searched for."""
        self.lengths.install_in_modules()
        tensors = list(tensors_in(data, 8))
        if collated is not None:
            self.slices.note(tensors, local, id(collated))
        else:
            for tensor in tensors:
                if tensor.dim() > dim and tensor.shape[dim] == local:
                    self.table.put(tensor, rows_of(local, dim))
        self.resume()
        return self.lengths.with_lists(data, local, total) if dim == 0 else data

    def whole_in(self, value: Any) -> Any:
        """Return the value with the rank's tensors in it, which belong to a slice of the batch, replaced by those of
        the whole batch."""
        with self.paused():
            known = any(each in self.table for each in tensors_in(value))
            return mapped(value, self.reading.whole_or_own) if known else value

    def watch_rows(self, order: Any, numbers: Any, take: Callable[[Any, bool], Any]) -> None:
        """Pass the result of an indexing to `take` from now on when the tensor `order` is indexed, or when another
        tensor is indexed by `numbers`, and use the return value of `take` instead. The second argument of `take` is
        whether the result comes from `order`. `order` and `numbers` may be None."""
        self._watched = (order, numbers, take)
        self.resume()

    # Start and stop of the mode

    def resume(self) -> None:
        """Follow the batch's tensors again after a pause, unless data parallelism was stopped in the meantime."""
        if not self._training.active:
            return
        self._off = False
        if not self._on:
            torch._C._push_on_torch_function_stack(self)
            self._on = True

    def is_following(self) -> bool:
        return self._on and not self._off

    def pause(self) -> bool:
        """Stop following the batch's tensors and return True. Return False if nothing is followed, or in compiled code.
        Below another mode, this mode stays installed and passes all calls on."""
        if not self._on or self._off or is_compiling():
            return False
        count = torch._C._len_torch_function_stack()
        if count and torch._C._get_function_stack_at(count - 1) is self:
            torch._C._pop_torch_function_stack()
            self._on = False
        else:
            self._off = True
        return True

    @contextmanager
    def paused(self) -> Iterator[None]:
        was_on = self.pause()
        try:
            yield
        finally:
            if was_on:
                self.resume()

    def _without_following(self, original: Any, *values: Any, **keywords: Any) -> Any:
        with self.paused():
            return original(*values, **keywords)

    def _begin_step(self, optimizer: Any, values: Any, keywords: Any) -> None:
        if not keywords.get("closure") and not any(map(callable, values[1:])):
            self._stepping = self.pause()

    def _end_step(self, *_: Any) -> None:
        if self.__dict__.pop("_stepping", False):
            self.resume()

    # Calls

    def _reduce(self, original: Any, tensor: Any, protocol: Any) -> Any:
        """Copy or pickle the whole batch's value of a tensor instead of the rank's own (`Tensor.__reduce_ex__`). torch
        does not call the mode for this."""
        return original(self.whole_in(tensor) if self.is_following() else tensor, protocol)

    def __torch_function__(self, function: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        kwargs = kwargs or {}
        if self._off or not self._training.active:
            return function(*args, **kwargs)
        if self._watched is not None and len(args) == 2:
            order, numbers, take = self._watched
            of_order = args[0] is order
            if (of_order or args[1] is numbers is not None) and self._name(function)[0] == "__getitem__":
                with self.paused():
                    return take(function(*args), of_order)
        if not self._concerns(args, kwargs):
            return function(*args, **kwargs)
        name, in_place = self._known_names.get(function) or self._name(function)
        if name in UNTOUCHED:
            return function(*args, **kwargs)
        if name in LEAVING:
            self.reading.name_line()
            return function(*args, **kwargs)
        if kwargs.get("out") is not None:
            return self.whole.note_open(function(*args, **kwargs))
        if name in SIZES:
            return self.reading.size(name, function, args, kwargs)
        if name in READING:
            return self.reading.read(name, function, args, kwargs)
        if name == "__getitem__":
            return self.indexing.get(function, *args)
        if name == "__setitem__":
            return self.indexing.set(function, *args)
        if name in self._special and getattr(function, "__name__", "") != "__get__":
            return self._special.run(name, function, args, kwargs)
        return self.rules.run(name, in_place, function, args, kwargs)

    def _concerns(self, args: Any, kwargs: Any) -> bool:
        table = self.table
        for each in args:
            kind = type(each)
            if kind is BatchSize or each in table or (kind in (list, tuple, torch.Size) and self._concerns(each, {})):
                return True
        return bool(kwargs) and self._concerns(kwargs.values(), {})

    def _name(self, function: Any) -> tuple[str, bool]:
        found = plain_name(function)
        if getattr(function, "__name__", "") != "__get__":
            self._known_names[function] = found
        return found

    def _pack(self, original: Any, values: Any, *others: Any, **keywords: Any) -> Any:
        """Run torch's `pack_padded_sequence` or `pad_packed_sequence` on the slice's samples. If the lengths are those
        of the whole batch, use the slice's part of them. In the result, only losses are followed."""
        if not self._on or self._off or not any(each in self.table for each in tensors_in((values, others, keywords))):
            return original(values, *others, **keywords)
        batch = self._training.asked
        if (
            others
            and isinstance(others[0], (list, torch.Tensor))
            and others[0] not in self.table
            and len(others[0]) == batch.total
        ):
            start = self._training.rank * batch.local
            others = ([int(each) for each in others[0]][start : start + batch.local], *others[1:])
        with self.paused():
            return self.whole.note_open(original(values, *others, **keywords))

    def _transform(self, original: Any, *values: Any, **keywords: Any) -> Any:
        """Run `torch.compile` or `vmap`, and return the compiled or vectorised function, inside which the batch's
        tensors are not followed."""
        made = original(*values, **keywords)
        if isinstance(made, torch.nn.Module):
            return made
        if not values:  # used as a decorator with arguments
            return lambda function: self._transformed(made(function))
        return self._transformed(made)

    def _transformed(self, function: Any) -> Any:
        @wraps(function)
        def run(*values: Any, **keywords: Any) -> Any:
            return self._run_alone(function, values, keywords)

        return run

    def _add_hook(self, original: Any, module: Any, hook: Any, *values: Any, **keywords: Any) -> Any:
        """Register a forward hook of a module. If the hook is the user's own, follow the batch's tensors inside models
        from now on, because the hook reads them."""
        while isinstance(hook, partial):
            hook = hook.func
        code = getattr(hook, "__code__", getattr(type(hook).__call__, "__code__", None))
        self._has_hooks = self._has_hooks or (code is not None and is_user_code(code.co_filename))
        return original(module, hook, *values, **keywords)

    def _call_module(self, original: Any, module: Any, *values: Any, **keywords: Any) -> Any:
        if not self._on or self._off or is_compiling() or not len(self.table) or not self._is_model(module):
            return original(module, *values, **keywords)
        return self._run_alone(lambda *some, **more: original(module, *some, **more), values, keywords)

    def _is_model(self, module: Any) -> bool:
        """Return whether the batch's tensors need not be followed inside a module: it has weights and computes no
        figures itself. Return False if the user has hooks in models."""
        if self._has_hooks or next(module.parameters(), None) is None:
            return False
        kind = type(module)
        if kind not in self._plain_models:
            code = getattr(kind.forward, "__code__", None)
            makes = code is not None and is_user_code(code.co_filename) and makes_figures(code)
            self._plain_models[kind] = not makes
        return self._plain_models[kind]

    def _run_alone(self, function: Any, values: Any, keywords: Any) -> Any:
        """Run a function, such as a model, without following the batch's tensors inside it, and record the relation of
        its results to the whole batch by their sizes. Return the results."""
        if not any(each in self.table for each in tensors_in((values, keywords))):
            values, keywords = self._cut((values, keywords))
        own_values, own_keywords = mapped(values, local_number), mapped(keywords, local_number)
        parts = [self.table.get(each) for each in tensors_in((values, keywords))]
        with self.paused():
            self.model_part = next((part for part in parts if part is not None), None)
            try:
                made = function(*own_values, **own_keywords)
            finally:
                self.model_part = None
            if not self._training.active:
                return made
            padded = next((each for each in tensors_in((values, keywords)) if self._is_padded(each)), None)
            if padded is None:
                return self.rules.note_results(made, values, keywords)
            part = self.table.get(padded)
            assert part is not None
            self.slices.note(list(tensors_in(made)), part.length, 0, part.dim)
            return made

    def _is_padded(self, tensor: Any) -> bool:
        part = self.table.get(tensor)
        return part is not None and part.kind == ROWS and bool(part.padded)

    def _cut(self, values: Any) -> Any:
        """Return the arguments of a model that gets no known tensor of the slice. Tensors with as many rows as the
        current batch, for example made from it by NumPy, are cut to the slice. If all of them have only one number for
        each row, none is cut."""
        batch = self._training.asked
        if not batch.sliced or not torch.is_grad_enabled():
            return values
        found = [each for each in tensors_in(values) if each.dim() and each.shape[0] == batch.total]
        cut = {id(each) for each in found if not each.requires_grad and each not in self.table}
        if not any(each.dim() > 1 and id(each) in cut for each in found):
            return values
        return mapped(values, lambda each: self.rules.cutter.cut(each) if id(each) in cut else each)
