"""Record of the tensors that are trained (parameters, buffers, tensors that optimizers hold), which gives them equal
values at the start."""

from __future__ import annotations

import gc
import weakref
from typing import Any, Callable, Iterable, Iterator
from weakref import WeakValueDictionary

import torch

from .rank_state import Training, refusal, replace


class Models:
    """The modules that the script creates and the tensors that its optimizers receive. The references are weak, so that
    models are freed as they would be otherwise.

    Both are in the order of their creation, which is the same on all ranks. `version` grows with each new one. `agreed`
    holds references to the tensors of optimizers, in an order that all ranks have agreed on. `is_of_slice(tensor)`
    returns whether a tensor has a row for each sample of the slice. Such a tensor, for example a perturbation of a
    batch, is no weight.
    """

    def __init__(self, training: Training) -> None:
        self._world = training.world
        self._count = 0
        self._modules: WeakValueDictionary[int, Any] = WeakValueDictionary()
        self._norms: WeakValueDictionary[int, Any] = WeakValueDictionary()
        self._held: WeakValueDictionary[int, Any] = WeakValueDictionary()
        self._alike: WeakValueDictionary[int, Any] = WeakValueDictionary()
        self._owners: WeakValueDictionary[int, Any] | None = None
        self.stale = False
        self.version = 0
        self._equal_version = -1
        self.agreed: list[Any] = []
        self.is_of_slice: Callable[[Any], bool] = lambda tensor: False

    def install(self) -> None:
        replace(torch.nn.Module, "__init__", self._init)
        replace(torch.nn.Module, "__setstate__", self._init)
        replace(torch.optim.Optimizer, "add_param_group", self._add_param_group)

    def _init(self, original: Any, module: Any, /, *values: Any, **keywords: Any) -> None:
        original(module, *values, **keywords)
        self._count += 1
        self._modules[self._count] = module
        if isinstance(module, torch.nn.modules.batchnorm._NormBase):
            self._norms[self._count] = module
        self.version += 1

    def _add_param_group(self, original: Any, optimizer: Any, param_group: Any) -> None:
        original(optimizer, param_group)
        found = [tensor for tensor in optimizer.param_groups[-1]["params"] if not self.is_of_slice(tensor)]
        for tensor in found:
            self._held.pop(id(tensor), None)  # remove a former tensor with this id: the order is the same on all ranks
            self._held[id(tensor)] = tensor
        self._owners = None
        self.version += 1

    def is_held(self, tensor: Any) -> bool:
        return self._held.get(id(tensor)) is tensor

    def is_training(self) -> bool:
        """Return whether any module whose own parameters an optimizer holds is in training mode. True also if there is
        no such module."""
        if self._owners is None:
            held = set(map(id, self._held.values()))
            modules = [each for each in self._modules.values() if held & set(map(id, each._parameters.values()))]
            self._owners = WeakValueDictionary(enumerate(modules))
        return not len(self._owners) or any(module.training for module in self._owners.values())

    def equalise_new(self) -> None:
        """Set every model or optimizer tensor that is new since the last call to rank 0's values. All ranks must call
        this. Raise ScriptRefused if the ranks have different models."""
        if self._equal_version == self.version:
            return
        self._equal_version = self.version
        fresh, held = self._agree_on_new()
        self.agreed += [weakref.ref(tensor) for tensor in held]
        for tensor in fresh:
            self._alike[id(tensor)] = tensor
        _exchange(fresh, lambda flat: self._world.broadcast_from_first(_to_sendable(flat)))

    def _agree_on_new(self) -> tuple[list[Any], list[Any]]:
        """Return two lists of tensors: the tensors of models and optimizers that do not have rank 0's values yet, and
        those held by optimizers that the ranks have not agreed on yet. Check that the ranks have equally many of both,
        and raise ScriptRefused if not.

        A model that the script has dropped may still exist on one rank and not on another, until its garbage is
        collected.
        """
        for again in (False, True):
            if again:
                gc.collect()
            known = {id(reference()) for reference in self.agreed}
            every = {id(tensor): tensor for tensor in (*self._held.values(), *self._module_tensors())}
            fresh = [tensor for tensor in every.values() if not self.is_alike(tensor)]
            held = [tensor for tensor in self._held.values() if id(tensor) not in known]
            mine = [len(fresh), sum(tensor.numel() for tensor in fresh), len(held)]
            first = self._world.value_from_first(mine)
            if not self._world.any_says(first != mine):
                return fresh, held
        raise refusal("the ranks have different models", "let every rank make the same model and optimizer")

    def is_alike(self, tensor: Any) -> bool:
        return self._alike.get(id(tensor)) is tensor

    def _module_tensors(self) -> Iterator[Any]:
        for module in list(self._modules.values()):
            for tensor in (*module._parameters.values(), *module._buffers.values()):
                if isinstance(tensor, torch.Tensor) and not _is_lazy(tensor) and tensor.layout == torch.strided:
                    yield tensor

    def average_buffers(self) -> None:
        """Average the running statistics of the normalisation layers over the ranks, in place, if a rank's slices have
        changed them. All ranks must call this."""
        if not self.stale:
            return
        self.stale = False
        buffers = [buffer for norm in self._norms.values() for buffer in (norm.running_mean, norm.running_var)]
        size = self._world.size
        _exchange(
            [buffer for buffer in buffers if buffer is not None], lambda flat: self._world.add_up(flat).div_(size)
        )

    def batch_norm_device(self) -> Any:
        """Return the device of a batch normalisation in training mode that keeps running statistics. None if the script
        has no such module."""
        for norm in self._norms.values():
            by_batch = isinstance(norm, torch.nn.modules.batchnorm._BatchNorm)
            if by_batch and norm.training and norm.running_mean is not None:
                return norm.running_mean.device
        return None


def _is_lazy(tensor: Any) -> bool:
    return isinstance(tensor, torch.nn.parameter.UninitializedTensorMixin)


def _exchange(tensors: Iterable[Any], send: Callable[[Any], Any]) -> None:
    """Update `tensors` in place with `send`, a collective that changes a flat tensor of values in place. All tensors of
    one type on one device go in one message."""
    groups: dict[Any, list[Any]] = {}
    for tensor in tensors:
        groups.setdefault((tensor.dtype, tensor.device), []).append(tensor)
    with torch.no_grad():
        for alike in groups.values():
            flat = torch.cat([tensor.detach().reshape(-1) for tensor in alike])
            send(flat)
            for tensor, row in zip(alike, flat.split([tensor.numel() for tensor in alike])):
                if not torch.equal(tensor, row.view(tensor.shape)):  # autograd refuses what was changed meanwhile
                    tensor.detach().copy_(row.view(tensor.shape))


def _to_sendable(flat: Any) -> Any:
    """Return the flat tensor `flat` in a type that process groups support: viewed as bytes if it is boolean or complex,
    else unchanged."""
    return flat.view(torch.uint8) if flat.dtype in (torch.bool, torch.complex64, torch.complex128) else flat
