"""Conversion of the numbers that a script reads from tensors: the loss of a slice becomes the loss of the whole batch.

The loss from which a backward began is known for the whole batch afterwards, at no cost. For another loss, such as one
that is read before its backward, all ranks exchange their values. They run the same script, so they do so at the same
time.
"""

from __future__ import annotations

from typing import Any

import torch

from .figures.mode import BatchFollower
from .figures.parts import COMPUTED, MEAN, OPEN, SUM, WEIGHTED, WHOLE, Part
from .loss_graph import LossReading
from .random_streams import RandomStreams
from .rank_state import Training, replace

_MAX_KNOWN = 8


class PrintedValues:
    def __init__(self, training: Training, streams: RandomStreams) -> None:
        self._training = training
        self.follower = BatchFollower(training, self._read_loss, streams.shared)
        self._known: dict[int, tuple[Any, int, Any]] = {}
        self._scaled: tuple[int, Any, Any] | None = None
        self._kind = "mean"

    def install(self) -> None:
        for name in ("item", "__float__", "tolist"):
            replace(torch.Tensor, name, self._number)
        replace(torch.Tensor, "numpy", self._array)
        self.follower.install()
        scalers = torch.amp if hasattr(torch.amp, "GradScaler") else torch.cuda.amp
        replace(scalers.GradScaler, "scale", self._scale)

    def record_backward(self, roots: Any, loss: Any, kind: str) -> None:
        """Record the end of a backward that began with the losses `roots`. `loss` is the loss of the whole batch, None
        if it is unknown; `kind` states how the loss reduces its batch ("sum" or "mean")."""
        self._kind = kind
        if loss is None or len(roots) != 1 or roots[0].numel() != 1:
            return
        part = self.follower.table.get(roots[0])
        if part is not None and part.kind in (COMPUTED, WHOLE, OPEN):  # terms that are combined in several ways
            return
        self._keep(roots[0], loss)
        if self._scaled is not None and self._scaled[0] == roots[0].data_ptr():
            _, original, scale = self._scaled
            self._keep(original, loss / scale)
        self._scaled = None

    def forget(self) -> None:
        """Discard the recorded losses of the whole batch, at the beginning of a new batch."""
        self._known.clear()
        self.follower.whole.forget()

    def _keep(self, tensor: Any, value: Any) -> None:
        if len(self._known) >= _MAX_KNOWN:
            del self._known[next(iter(self._known))]
        # The detached tensor keeps its memory, so that no other tensor is taken for it.
        self._known[tensor.data_ptr()] = (tensor.detach(), tensor._version, value)

    def _batch_value(self, tensor: Any) -> Any:
        """Return the number that a tensor, such as a loss, has for the whole batch. None if the tensor's own value
        applies, or if the tensor is followed. May exchange values with the other ranks."""
        if self._known and tensor.numel() == 1 and tensor.layout == torch.strided:
            known = self._known.get(tensor.data_ptr())
            if known is not None and known[1] == tensor._version and tensor.dtype == known[0].dtype:
                return float(_item(known[2])) if isinstance(known[2], torch.Tensor) else known[2]
        if tensor in self.follower.table:
            return None
        if self._training.asked.sliced and tensor.requires_grad and tensor.grad_fn is not None:
            return self._ask_ranks(tensor)
        return None

    def _ask_ranks(self, tensor: Any) -> Any:
        """Return the whole batch's value of a loss, computed together with the other ranks. Used for a loss that was
        not followed, such as one computed inside a compiled function. None if the value cannot be composed from the
        ranks' values."""
        if tensor.numel() != 1 or not self.follower.exchange.is_possible():
            return None
        reading = self._read_graph(tensor)
        if reading is not None and reading.is_of_weights:
            return None
        part = Part(self._kind) if reading is None else _part_of(reading)
        if part is None:
            self.follower.reading.name_line()
            return None
        return float(_item(self.follower.exchange.whole(tensor, part)))

    def _read_loss(self, tensor: Any) -> Part | None:
        """Return how the whole batch's loss is composed of the ranks' losses (a Part: sum, mean or weighted mean),
        according to the autograd graph of `tensor`. None if the graph does not show it."""
        if not self._training.asked.sliced or tensor.grad_fn is None:
            return None
        with self.follower.paused():
            reading = self._read_graph(tensor)
        return None if reading is None else _part_of(reading)

    def _read_graph(self, tensor: Any) -> LossReading | None:
        """Return the analysis of the autograd graph of the loss `tensor`. None if saved tensors that the analysis needs
        were freed by an earlier backward pass."""
        batch = self._training.asked
        try:
            return LossReading(tensor.grad_fn, batch.local, batch.total)
        except RuntimeError:
            return None

    def _number(self, original: Any, tensor: Any) -> Any:
        if self._training.active:
            with self.follower.paused():
                value = self._batch_value(tensor) if tensor.is_floating_point() else None
            if value is not None:
                return value
        return original(tensor)

    def _array(self, original: Any, tensor: Any, **keywords: Any) -> Any:
        if self._known and self._training.active:
            with self.follower.paused():
                plain = tensor.is_floating_point() and not tensor.requires_grad
                value = self._batch_value(tensor) if plain else None
                if value is not None:
                    return original(torch.full_like(tensor, value), **keywords)
        return original(tensor, **keywords)

    def _scale(self, original: Any, scaler: Any, outputs: Any) -> Any:
        scaled = original(scaler, outputs)
        if isinstance(outputs, torch.Tensor) and scaled is not outputs and self._training.active:
            self._scaled = (scaled.data_ptr(), outputs.detach(), scaler._scale.detach())
        return scaled


def _part_of(reading: LossReading) -> Part | None:
    if (
        reading.bent
        or reading.opaque
        or bool(reading.sums) + bool(reading.means) + len(reading.weighted) != 1
        or reading.has_whole
    ):
        return None
    if reading.weighted:
        return Part(WEIGHTED, weight=reading.weighted[0][1].detach().clone())
    return Part(SUM if reading.sums else MEAN)


_item = torch._C.TensorBase.item
