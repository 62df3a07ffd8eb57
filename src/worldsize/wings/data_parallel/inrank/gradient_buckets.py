"""Messages of gradients. Each contains many gradients, and they are sent while the backward still runs."""

from __future__ import annotations

from typing import Any, Sequence

import torch

from .process_group import Communicator

_FIRST_BYTES = 1 << 20
_BYTES = 25 << 20
"""The sizes of messages, as in DistributedDataParallel. The first message is small, so that it is sent early."""

HEAD = 3
EXTRA, WEIGHT, LOSS = range(HEAD)
"""The positions of three numbers at the end of the last message, before one number for each tensor: the count of ranks
that trained tensors which the plan does not contain, the sum of weights, and the loss."""


class GradientBucket:
    """A message with the gradients of tensors of one type on one device."""

    def __init__(self, members: Sequence[tuple[int, Any]], tail: int = 0, like: Any = None) -> None:
        like = members[0][1] if members else like
        sizes = [tensor.numel() for _, tensor in members]
        self.indices = [index for index, _ in members]
        self.tensors = [tensor for _, tensor in members]
        self.flat = torch.zeros(sum(sizes) + tail, dtype=like.dtype, device=like.device)
        parts = self.flat.split([*sizes, tail])
        self.views = [part.view(tensor.shape) for part, tensor in zip(parts, self.tensors)]
        self.tail = parts[-1]
        self.missing: list[int] = []
        self.work: Any = None

    def fill(self) -> None:
        """Copy this rank's gradients of the tensors of this message into the message's buffer, sparse ones as dense
        ones. A tensor without a gradient gets zeros, and its position is recorded in `missing`."""
        self.missing = [position for position, tensor in enumerate(self.tensors) if tensor.grad is None]
        for position in self.missing:
            self.views[position].zero_()
        found = [(view, tensor.grad) for view, tensor in zip(self.views, self.tensors) if tensor.grad is not None]
        _copy([(view, gradient.to_dense() if gradient.is_sparse else gradient) for view, gradient in found])

    def send(self, world: Communicator) -> None:
        flat = torch.view_as_real(self.flat) if self.flat.is_complex() else self.flat
        self.work = world.group(self.flat.device).allreduce([flat])

    def give_back(self, used: Sequence[float] | None) -> None:
        """Copy the sums over all ranks from the message into the tensors' gradients. `used` is the number of ranks on
        which each tensor had a gradient; None if none is missing."""
        found = [(tensor, view) for tensor, view in zip(self.tensors, self.views) if tensor.grad is not None]
        _copy([(tensor.grad, view) for tensor, view in found if not tensor.grad.is_sparse])
        for tensor, view in found:
            if tensor.grad.is_sparse:
                tensor.grad = view.to_sparse(tensor.grad.sparse_dim())
        for position in self.missing:
            if used is not None and used[position]:
                self.tensors[position].grad = self.views[position].detach().clone()


def _copy(pairs: Sequence[tuple[Any, Any]]) -> None:
    """Copy the second tensor of each pair into the first."""
    if pairs:
        with torch.no_grad():
            torch._foreach_copy_([target for target, _ in pairs], [source for _, source in pairs])


class BucketPlan:
    """The grouping and order in which gradients are sent, for the backward at one place in the script."""

    def __init__(self, order: Sequence[tuple[int, Any]]) -> None:
        self.order = list(order)
        self.buckets = _make_buckets(self.order)
        self.number = {index: number for number, bucket in enumerate(self.buckets) for index in bucket.indices}
        self.place = {index: position for position, (index, _) in enumerate(self.order)}
        self.tail = self.buckets[-1].tail


class BackwardPass:
    """The state of a backward pass that is in progress: the tensors that got gradients, and the messages sent so
    far."""

    def __init__(self, plan: BucketPlan | None) -> None:
        self.plan = plan
        self.fired: dict[int, None] = {}
        self.extra: list[int] = []
        self.next = 0
        self.pending = [len(bucket.indices) for bucket in plan.buckets] if plan else []
        self.former: list[tuple[Any, Any]] = []
        self.weight: Any = None
        self.loss: Any = 0.0
        self.parts = True
        self.summed = False
        self.idle = False


def _make_buckets(order: Sequence[tuple[int, Any]]) -> list[GradientBucket]:
    """Group the tensors in `order`, pairs (index, tensor), into messages of one type and device, of about 25 MiB (the
    first: 1 MiB). Return the GradientBuckets in the order in which they become complete. The last one contains the
    tail, in a data type that can count."""
    open_ones: dict[Any, list[tuple[int, Any]]] = {}
    room: dict[Any, int] = {}
    groups: list[list[tuple[int, Any]]] = []
    for index, tensor in order:
        kind = (tensor.dtype, tensor.device)
        open_ones.setdefault(kind, []).append((index, tensor))
        room[kind] = room.get(kind, 0) + tensor.numel() * tensor.element_size()
        if room[kind] >= (_BYTES if groups else _FIRST_BYTES):
            groups.append(open_ones.pop(kind))
            del room[kind]
    groups += open_ones.values()
    tail = HEAD + len(order)
    last = groups[-1][0][1]
    if last.dtype in (torch.float32, torch.float64):
        return [*(GradientBucket(group) for group in groups[:-1]), GradientBucket(groups[-1], tail)]
    like = torch.empty(0, dtype=torch.float32, device=last.device)
    return [*map(GradientBucket, groups), GradientBucket([], tail, like)]
