"""Each rank's share of the whole batch's loss: what a backward begins with, so that gradients need only be added."""

from __future__ import annotations

from .loss_graph import LossReading, read_loss
from .rank_state import refusal
from .torch_module import torch

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any, Sequence

    from .gradient_buckets import BackwardPass
    from .process_group import Communicator
    from .rank_state import Training


class LossShares:
    def __init__(self, training: Training, world: Communicator) -> None:
        self._training = training
        self._world = world

    def begin(self, run: BackwardPass, roots: Any, gradients: Any, handles: list[Any]) -> list[Any]:
        """The gradients to begin with: each rank's part of the whole batch's loss."""
        batch = self._training.batch
        if not batch.sliced:
            run.parts = False
            run.loss = _loss_value(roots)
            return list(gradients)
        readings = [read_loss(root.grad_fn, batch.local, batch.total) for root in roots]
        scale: Any = 1.0 / self._world.size
        summed = False
        for reading in readings:
            self._check_reading(reading)
            summed = summed or reading.kind == "sum"
            for node in reading.sums:
                handles.append(node.register_prehook(_make_scaling(self._world.size)))
        if len(readings) == 1 and readings[0].kind == "weighted":
            scale = readings[0].weighted[0][1].detach().double() / (batch.local * self._world.size)
            run.weight = scale
        else:
            self._weigh([pair for reading in readings for pair in reading.weighted], handles)
        number = _loss_value(roots)
        run.summed = summed
        run.loss = number if summed else number * scale
        return [_scaled_gradient(root, gradient, scale) for root, gradient in zip(roots, gradients)]

    def _check_reading(self, reading: LossReading) -> None:
        if reading.bent and self._training.mode == "split":
            raise refusal(
                f"the loss is not a sum or a mean over its batch ({reading.bent[0]} of one), "
                "so slices of a batch do not add up to it",
                f"take the {reading.bent[0]} of each sample's loss, or use --data-parallel=scale",
            )
        if reading.sums:
            self._training.notice("the loss is a sum over its batch: gradients are added over the ranks")
        if reading.opaque:
            self._training.notice(
                "the loss's last steps could not be looked into ({}): it is taken as a mean over the batch".format(
                    ", ".join(sorted(set(reading.opaque)))
                )
            )

    def _weigh(self, pairs: list[tuple[Any, Any]], handles: list[Any]) -> None:
        """Means over what is counted, beside other terms: each rank's weight must be known before."""
        if not pairs:
            return
        mine = torch.stack([count.detach().double().reshape(()).cpu() for _, count in pairs])
        everyone = self._world.add_up(mine.clone())
        for (node, _), own, all_of_them in zip(pairs, mine.tolist(), everyone.tolist()):
            if all_of_them:
                handles.append(node.register_prehook(_make_scaling(own * self._world.size / all_of_them)))


def _make_scaling(factor: float) -> Any:
    def times(gradients: Any) -> Any:
        return tuple(gradient * factor if gradient is not None else None for gradient in gradients)

    return times


def _loss_value(roots: Sequence[Any]) -> Any:
    """The loss, where there is one."""
    return roots[0].detach() if len(roots) == 1 and roots[0].numel() == 1 else 0.0


def _scaled_gradient(root: Any, gradient: Any, scale: Any) -> Any:
    if gradient is None:
        gradient = torch.ones_like(root, memory_format=torch.preserve_format)
    return (gradient * scale).to(gradient.dtype)
