"""Which tensors are trained, and that they start equal: parameters, buffers, what optimizers hold."""

from __future__ import annotations

import gc
import weakref
from typing import Any, Iterable, Iterator

import torch

from .rank_state import Training, refusal, replace


class Models:
    """Modules as they are made, tensors as optimizers get them; weakly, so that models die as they would have.

    `version` grows with each; `agreed`: references to what optimizers hold, in an order that all ranks have agreed on.
    """

    def __init__(self, training: Training) -> None:
        self._training = training
        self._world = training.world
        self._modules: dict[int, Any] = {}
        self._count = self._counted = 0
        self._norms: list[Any] = []
        self._held: dict[int, Any] = {}
        self._alike: dict[int, Any] = {}
        self._owners: list[Any] | None = None
        self._fresh = True
        self.stale = False
        self.version = 0
        self.agreed: list[Any] = []

    def install(self) -> None:
        replace(torch.nn.Module, "__init__", self._init)
        replace(torch.nn.Module, "__setstate__", self._init)
        replace(torch.optim.Optimizer, "add_param_group", self._add_param_group)

    def _init(self, original: Any, module: Any, /, *values: Any, **keywords: Any) -> None:
        original(module, *values, **keywords)
        self._add(module)

    def _add(self, module: Any) -> None:
        self._count += 1
        modules, number = self._modules, self._count
        modules[number] = weakref.ref(module, lambda _: modules.pop(number, None))
        self._note_change()

    def _note_change(self) -> None:
        self._fresh = True
        self.version += 1

    def modules(self) -> list[Any]:
        """Those alive, in the order in which they were made: the same on all ranks."""
        return list(_live_tensors(self._modules))

    def _add_param_group(self, original: Any, optimizer: Any, param_group: Any) -> None:
        original(optimizer, param_group)
        for tensor in optimizer.param_groups[-1]["params"]:
            self._held.pop(id(tensor), None)  # of a former tensor: the order is the same on all ranks
            self._held[id(tensor)] = weakref.ref(tensor)
        self._owners = None
        self._note_change()

    def held_tensors(self) -> Iterator[Any]:
        """What optimizers hold, in the order in which they got it."""
        return _live_tensors(self._held)

    def is_held(self, tensor: Any) -> bool:
        return self._held.get(id(tensor), _no_tensor)() is tensor

    def is_training(self) -> bool:
        """Whether a module whose own parameters are trained is in training mode; also where there is none."""
        if self._owners is None:
            held = {id(tensor) for tensor in self.held_tensors()}
            self._owners = [
                weakref.ref(module)
                for module in self.modules()
                if any(id(own) in held for own in module._parameters.values())
            ]
        found = False
        for reference in self._owners:
            module = reference()
            if module is not None:
                if module.training:
                    return True
                found = True
        return not found

    def equalise_new(self) -> None:
        """Every tensor that is new since the last time gets rank 0's values; all ranks must come here."""
        if not self._fresh:
            return
        self._fresh = False
        fresh, held = self._agree_on_new()
        self.agreed += [weakref.ref(tensor) for tensor in held]
        for tensor in fresh:
            self._alike[id(tensor)] = weakref.ref(tensor)
        self.broadcast_values(fresh)

    def _agree_on_new(self) -> tuple[list[Any], list[Any]]:
        """What is new, and what of it optimizers hold: the same on all ranks.

        A model that a script has dropped may still be there on one rank and not on another, until its garbage is
        collected.
        """
        for again in (False, True):
            if again:
                gc.collect()
            known = {id(reference()) for reference in self.agreed}
            fresh = [tensor for tensor in self._tensors() if not self.is_alike(tensor)]
            held = [tensor for tensor in self.held_tensors() if id(tensor) not in known]
            mine = [float(len(fresh)), float(sum(tensor.numel() for tensor in fresh)), float(len(held))]
            first = self._world.broadcast_from_first(torch.tensor(mine, dtype=torch.float64))
            if not self._world.add_up(torch.tensor([float(first.tolist() != mine)])).item():
                return fresh, held
        raise refusal("the ranks have different models", "let every rank make the same model and optimizer")

    def is_alike(self, tensor: Any) -> bool:
        return self._alike.get(id(tensor), _no_tensor)() is tensor

    def broadcast_values(self, tensors: Iterable[Any]) -> None:
        """Rank 0's values, many tensors in one message."""
        with torch.no_grad():
            for tensors_alike in _group_by_type(tensors):
                flat = torch.cat([tensor.detach().reshape(-1) for tensor in tensors_alike])
                self._world.broadcast_from_first(_to_sendable(flat))
                rows = flat.split([tensor.numel() for tensor in tensors_alike])
                for tensor, row in zip(tensors_alike, rows):
                    tensor.detach().copy_(row.view(tensor.shape))

    def _tensors(self) -> Iterator[Any]:
        """The optimizers' first: an order that is the same on all ranks."""
        seen = set()
        for tensor in (*self.held_tensors(), *self._module_tensors()):
            if id(tensor) not in seen:
                seen.add(id(tensor))
                yield tensor

    def _module_tensors(self) -> Iterator[Any]:
        for module in self.modules():
            for tensor in (*module._parameters.values(), *module._buffers.values()):
                if isinstance(tensor, torch.Tensor) and not _is_lazy(tensor) and tensor.layout == torch.strided:
                    yield tensor

    def average_buffers(self) -> None:
        """Running statistics that each rank has made of its slices become one; all ranks must come here."""
        if not self.stale:
            return
        self.stale = False
        norms = [module for module in self.modules() if isinstance(module, torch.nn.modules.batchnorm._NormBase)]
        rows = [norm.running_mean for norm in norms if norm.running_mean is not None]
        rows += [norm.running_var for norm in norms if norm.running_var is not None]
        with torch.no_grad():
            for alike in _group_by_type(rows):
                flat = torch.cat([row.reshape(-1) for row in alike])
                self._world.add_up(flat).div_(self._world.size)
                for row, part in zip(alike, flat.split([row.numel() for row in alike])):
                    row.copy_(part.view(row.shape))

    def batch_norm_device(self) -> Any:
        """The device of a module in training mode that normalises by its batch's statistics; None for no module."""
        if self._counted != self._count:
            self._counted = self._count
            kinds = torch.nn.modules.batchnorm._BatchNorm
            self._norms = [weakref.ref(module) for module in self.modules() if isinstance(module, kinds)]
        for norm in self._norms:
            module = norm()
            if module is not None and module.training and module.running_mean is not None:
                return module.running_mean.device
        return None


def _no_tensor() -> None:
    return None


def _live_tensors(references: dict[int, Any]) -> Iterator[Any]:
    for reference in list(references.values()):
        tensor = reference()
        if tensor is not None:
            yield tensor


def _is_lazy(tensor: Any) -> bool:
    return isinstance(tensor, torch.nn.parameter.UninitializedTensorMixin)


def _group_by_type(tensors: Iterable[Any]) -> list[list[Any]]:
    """Those of one type on one device together."""
    groups: dict[Any, list[Any]] = {}
    for tensor in tensors:
        groups.setdefault((tensor.dtype, tensor.device), []).append(tensor)
    return list(groups.values())


def _to_sendable(flat: Any) -> Any:
    """Types that the connections do not know go as bytes."""
    return flat.view(torch.uint8) if flat.dtype in (torch.bool, torch.complex64, torch.complex128) else flat
