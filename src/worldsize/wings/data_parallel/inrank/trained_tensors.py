"""The tensors whose gradients are added up, in an order that is the same on all ranks."""

from __future__ import annotations

import weakref
from typing import Any, Callable, Sequence

import torch

from .models import Models
from .rank_state import Training, refusal


def _no_tensor() -> None:
    """Return None, in place of a reference to a tensor that has a reference already."""


class TrainedTensors:
    """References to the trained tensors, by number. `arrived(number)` is called when a tensor has received its gradient
    of a backward."""

    def __init__(self, training: Training, models: Models, arrived: Callable[[int], None]) -> None:
        self._training = training
        self._models = models
        self._on_gradient = arrived
        self.tensors: list[Any] = []
        self._index: dict[int, int] = {}
        self._cold: list[Any] = []
        self._taken = 0
        self._version = -1

    def find(self, roots: Any, known: bool) -> bool:
        """Find the trained tensors, and register hooks on them, before a backward from the losses `roots`. `known` is
        true if the place of this backward in the script has a plan already. Return whether there is any tensor to
        train."""
        if not known or self._version != self._models.version:
            self._version = self._models.version
            self.discover(roots)
        self.register_hooks()
        return bool(self.tensors)

    def discover(self, roots: Any) -> None:
        """Add new trained tensors to the numbered list: the tensors that optimizers hold, in the order that all ranks
        have agreed on, then the leaves of the autograd graph of the losses `roots`, except those that belong to the
        data."""
        for reference in self._models.agreed[self._taken :]:
            self._add(reference)
        self._taken = len(self._models.agreed)
        local = self._training.batch.local
        for tensor in graph_leaves(roots):
            of_data = not isinstance(tensor, torch.nn.Parameter) and tensor.dim() and tensor.shape[0] == local
            of_data = of_data or self._models.is_of_slice(tensor)
            if not self._is_known(tensor) and (self._models.is_held(tensor) or not of_data):
                self._add(weakref.ref(tensor))

    def find_missed(self, roots: Any) -> list[int]:
        """Return the numbers (positions in the list) of new trained tensors that have a gradient after a backward from
        `roots` in which no hook on a trained tensor was called."""
        count = len(self.tensors)
        self.discover(roots)
        self.register_hooks()
        found = [(index, self.tensors[index]()) for index in range(count, len(self.tensors))]
        return [index for index, tensor in found if tensor is not None and tensor.grad is not None]

    def _is_known(self, tensor: Any) -> bool:
        number = self._index.get(id(tensor))
        return number is not None and self.tensors[number]() is tensor

    def _add(self, reference: Any) -> None:
        """Append a weak reference to a trained tensor to the list, even if the tensor no longer exists, since the
        position in the order counts. A tensor that is in the list already gets an empty reference."""
        tensor = reference()
        if tensor is not None:
            if self._is_known(tensor):
                reference = _no_tensor
            else:
                self._index[id(tensor)] = len(self.tensors)
                self._cold.append(reference)
        self.tensors.append(reference)

    def register_hooks(self) -> None:
        """Register hooks on the trained tensors that have none yet. Raise ScriptRefused if the ranks' values of these
        tensors differ, or if the script has hooks on their gradients that do not work in data parallelism."""
        if not self._cold:
            return
        cold, fresh = [], []
        for reference in self._cold:
            tensor = reference()
            if tensor is not None and tensor.requires_grad and tensor.is_leaf:
                fresh.append(tensor)
            elif tensor is not None:
                cold.append(reference)
        self._cold = cold
        for tensor in fresh:
            _refuse_hooks(tensor)
            tensor.register_post_accumulate_grad_hook(self._make_hook(self._index[id(tensor)]))
        # Tensors made after the last call of equalise_new must be alike on all ranks already.
        unequal = [tensor for tensor in fresh if not self._models.is_alike(tensor)]
        if unequal and self._training.world.differ(unequal, 0.0):
            raise refusal(
                "the ranks began with different weights",
                "seed what draws them (torch.manual_seed) before the model is made",
            )

    def _make_hook(self, index: int) -> Any:
        return lambda _: self._on_gradient(index)


def graph_leaves(roots: Sequence[Any]) -> list[Any]:
    """Return the leaf tensors of the autograd graph of the losses `roots`, in an order that depends on the graph
    alone."""
    stack = [root.grad_fn for root in roots if root.grad_fn is not None]
    seen, found = set(stack), []
    while stack:
        node = stack.pop()
        variable = getattr(node, "variable", None)
        if variable is not None:
            found.append(variable)
        for child, _ in node.next_functions:
            if child is not None and child not in seen:
                seen.add(child)
                stack.append(child)
    return found


def _refuse_hooks(tensor: Any) -> None:
    if tensor._backward_hooks:
        raise refusal(
            "a hook on a weight's gradient would see only this rank's part of it",
            "change gradients after the backward pass, before the step",
        )
    if getattr(tensor, "_post_accumulate_grad_hooks", None):
        raise refusal(
            "a weight is updated inside the backward pass, before its gradient is complete",
            "call the optimizer's step after it",
        )
