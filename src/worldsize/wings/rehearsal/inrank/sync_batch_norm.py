"""SyncBatchNorm on the CPU, which torch has for GPUs alone: statistics of all ranks' batches, and gradients through
them."""

from __future__ import annotations

from .torch_module import F, torch

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any


def install() -> None:
    torch.nn.SyncBatchNorm.forward = forward


def forward(self: Any, input: Any) -> Any:
    self._check_input_dim(input)
    self._check_non_zero_input_channels(input)
    factor = 0.0 if self.momentum is None else self.momentum
    if self.training and self.track_running_stats and self.num_batches_tracked is not None:
        self.num_batches_tracked.add_(1)
        if self.momentum is None:
            factor = 1.0 / float(self.num_batches_tracked)
    by_batch = self.training or (self.running_mean is None and self.running_var is None)
    kept = not self.training or self.track_running_stats
    mean, var = (self.running_mean, self.running_var) if kept else (None, None)
    if not (by_batch and self.training and _has_several_ranks(self.process_group)):
        return F.batch_norm(input, mean, var, self.weight, self.bias, by_batch, factor, self.eps)
    return _normalise(self, input, mean, var, factor)


def _has_several_ranks(group: Any) -> bool:
    dist = torch.distributed
    return bool(dist.is_available() and dist.is_initialized() and dist.get_world_size(group) > 1)


class _SumOverRanks(torch.autograd.Function):  # type: ignore[misc]
    """The sum over all ranks; its gradient is the sum of theirs."""

    @staticmethod
    def forward(context: Any, value: Any, group: Any) -> Any:
        context.group = group
        total = value.clone()
        torch.distributed.all_reduce(total, group=group)
        return total

    @staticmethod
    def backward(context: Any, gradient: Any) -> Any:
        total = gradient.clone()
        torch.distributed.all_reduce(total, group=context.group)
        return total, None


def _normalise(layer: Any, input: Any, running_mean: Any, running_var: Any, factor: float) -> Any:
    values = input.float()
    others = [dim for dim in range(input.dim()) if dim != 1]
    count = values.new_full((1,), input.numel() // input.size(1))
    sums = torch.cat([values.sum(others), (values * values).sum(others), count])
    sums = _SumOverRanks.apply(sums, layer.process_group or torch.distributed.group.WORLD)
    channels, total = input.size(1), sums[-1].detach()
    mean = sums[:channels] / total
    var = sums[channels:-1] / total - mean * mean
    if running_mean is not None:
        with torch.no_grad():
            running_mean.lerp_(mean.detach().to(running_mean.dtype), factor)
            running_var.lerp_((var.detach() * total / (total - 1).clamp(min=1)).to(running_var.dtype), factor)
    shape = [1, -1] + [1] * (input.dim() - 2)
    scale = torch.rsqrt(var + layer.eps)
    weight = scale if layer.weight is None else scale * layer.weight
    result = (values - mean.view(shape)) * weight.view(shape)
    return (result if layer.bias is None else result + layer.bias.view(shape)).to(input.dtype)
