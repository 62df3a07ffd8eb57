"""Numbers that a script takes out of tensors: the loss of a slice becomes the loss of the whole batch.

The loss from which a backward began is known for the whole batch afterwards, at no cost. For another loss, such as one
that is read before its backward, all ranks ask each other: they run the same script, so they ask at the same time.
"""

from __future__ import annotations

import threading
from typing import Any

import torch

from .loss_graph import LossReading
from .rank_state import Training, replace

_MAX_KNOWN = 8


class PrintedValues:
    def __init__(self, training: Training) -> None:
        self._training = training
        self._world = training.world
        self._known: dict[int, tuple[Any, int, Any]] = {}
        self._scaled: tuple[int, Any, Any] | None = None
        self._kind = "mean"

    def install(self) -> None:
        for name in ("item", "__float__", "tolist"):
            replace(torch.Tensor, name, self._number)
        replace(torch.Tensor, "numpy", self._array)
        scalers = torch.amp if hasattr(torch.amp, "GradScaler") else torch.cuda.amp
        replace(scalers.GradScaler, "scale", self._scale)

    def record_backward(self, roots: Any, loss: Any, kind: str) -> None:
        """Record the end of a backward that began with `roots`: `loss` is the whole batch's, None for unknown."""
        self._kind = kind
        if loss is None or len(roots) != 1 or roots[0].numel() != 1:
            return
        self._keep(roots[0], loss)
        if self._scaled is not None and self._scaled[0] == roots[0].data_ptr():
            _, original, scale = self._scaled
            self._keep(original, loss / scale)
        self._scaled = None

    def forget(self) -> None:
        """Forget the known losses: a new batch begins."""
        self._known.clear()

    def _keep(self, tensor: Any, value: Any) -> None:
        if len(self._known) >= _MAX_KNOWN:
            del self._known[next(iter(self._known))]
        # The detached tensor keeps its memory, so that no other tensor is taken for it.
        self._known[tensor.data_ptr()] = (tensor.detach(), tensor._version, value)

    def _batch_value(self, tensor: Any) -> Any:
        """The value of the whole batch; None where the tensor's own value is meant. May ask the other ranks."""
        if self._known and tensor.numel() == 1 and tensor.layout == torch.strided:
            known = self._known.get(tensor.data_ptr())
            if known is not None and known[1] == tensor._version and tensor.dtype == known[0].dtype:
                return float(_item(known[2])) if isinstance(known[2], torch.Tensor) else known[2]
        if self._training.asked.sliced and tensor.requires_grad and tensor.grad_fn is not None:
            return self._ask_ranks(tensor)
        return None

    def _ask_ranks(self, tensor: Any) -> Any:
        if tensor.numel() != 1 or threading.current_thread() is not threading.main_thread():
            return None
        own = float(_item(tensor.detach()))
        kind, weight = self._read(tensor.grad_fn)
        total, weights = self._world.add_values([own * weight if weight else 0.0, weight])
        return total if kind == "sum" else total / weights if weights else own

    def _read(self, root: Any) -> tuple[str, float]:
        """How a loss reduces its batch, and its weight; the last backward's kind for a loss whose graph is gone."""
        batch = self._training.asked
        try:
            reading = LossReading(root, batch.local, batch.total)
        except RuntimeError:  # what the graph has saved is gone
            return self._kind, 1.0
        return reading.kind, float(_item(reading.weighted[0][1].detach())) if reading.kind == "weighted" else 1.0

    def _number(self, original: Any, tensor: Any) -> Any:
        if self._training.active and tensor.is_floating_point():
            value = self._batch_value(tensor)
            if value is not None:
                return value
        return original(tensor)

    def _array(self, original: Any, tensor: Any, **keywords: Any) -> Any:
        if self._known and self._training.active and tensor.is_floating_point() and not tensor.requires_grad:
            value = self._batch_value(tensor)
            if value is not None:
                return original(torch.full_like(tensor, value), **keywords)
        return original(tensor, **keywords)

    def _scale(self, original: Any, scaler: Any, outputs: Any) -> Any:
        scaled = original(scaler, outputs)
        if isinstance(outputs, torch.Tensor) and scaled is not outputs and self._training.active:
            self._scaled = (scaled.data_ptr(), outputs.detach(), scaler._scale.detach())
        return scaled


_item = torch._C.TensorBase.item
