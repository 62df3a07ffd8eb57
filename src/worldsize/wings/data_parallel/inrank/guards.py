"""What is recognised: scripts that distribute themselves, that make their own batches, or whose ranks drift apart."""

from __future__ import annotations

import os
import signal
import sys

from .batch_norm import SYNC_VARIABLE
from .rank_state import ScriptRefused, refusal, replace
from .torch_module import torch

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from .batch_norm import BatchNormPatch
    from .rank_parts import RankParts

_PATIENCE = 3
"""Steps after which a script that has shared out no batch makes its batches itself."""

_MORE_PATIENCE = 10
"""The same in backwards, of scripts that have no loader and step by hand, or seldom."""

_COMPARED_STEPS = (1, 2, 5, 10, 20, 50, 100, 200, 500)
_EVERY = 1000
"""The steps after which ranks compare their weights."""

_TOLERANCE = 1e-6


REFUSAL_CODE = 2


def install_guards(parts: RankParts, normalising: BatchNormPatch) -> None:
    sys.excepthook = _make_excepthook(sys.excepthook)
    replace(torch.distributed, "init_process_group", lambda original: _OwnProcessGroup(parts, original))
    replace(torch.nn.DataParallel, "__init__", _make_one_device)
    watch = _StepChecks(parts, normalising)
    from torch.optim.optimizer import register_optimizer_step_post_hook

    replace(torch.autograd, "backward", watch.make_backward)
    register_optimizer_step_post_hook(lambda optimizer, *_: watch.check_step(optimizer))
    replace(torch.optim.lr_scheduler.ReduceLROnPlateau, "step", watch.make_plateau_step)


def _make_excepthook(original: Any) -> Any:
    """A refusal is the end: said by every rank, and not cut short by the end of another."""

    def leave(kind: Any, value: Any, trace: Any) -> None:
        refused = issubclass(kind, ScriptRefused)
        if refused:
            signal.signal(signal.SIGTERM, signal.SIG_IGN)
        original(kind, value, trace)
        if refused:
            for stream in (sys.stdout, sys.stderr):
                stream.flush()
            os._exit(REFUSAL_CODE)

    return leave


class _OwnProcessGroup:
    """`init_process_group` by the script."""

    def __init__(self, parts: RankParts, original: Any) -> None:
        self._parts = parts
        self._original = original

    def __call__(self, *values: Any, **keywords: Any) -> Any:
        training = self._parts.training
        if training.active and training.used:
            raise refusal(
                "the script makes a process group after the training has begun",
                "a script that distributes itself is run without --data-parallel",
            )
        if training.active:
            training.notice("the script makes its own process group: it distributes itself, and is left as it is")
            training.stop()
        return self._original(*values, **keywords)


def _make_one_device(original: Any) -> Any:
    """A rank has one device."""

    def patched_init(wrapper: Any, module: Any, *values: Any, **keywords: Any) -> None:
        if torch.cuda.is_available():
            keywords.pop("device_ids", None)
            original(wrapper, module, [torch.cuda.current_device()])
        else:
            original(wrapper, module, *values, **keywords)

    return patched_init


class _StepChecks:
    def __init__(self, parts: RankParts, normalising: BatchNormPatch) -> None:
        self._parts = parts
        self._normalising = normalising

    def check_step(self, optimizer: Any) -> None:
        training = self._parts.training
        if not training.active:
            return
        training.steps += 1
        self._refuse_without_batches("steps", training.steps, _PATIENCE)
        self._check_batch_norm()
        if training.used and (training.steps in _COMPARED_STEPS or training.steps % _EVERY == 0):
            self._compare(optimizer)

    def make_backward(self, original: Any) -> Any:
        """Scripts that step by hand come to no optimizer's hook."""

        def backward(*values: Any, **keywords: Any) -> None:
            original(*values, **keywords)
            training = self._parts.training
            if training.active and not training.loaded:
                self._refuse_without_batches("backwards", training.backwards, _MORE_PATIENCE)
            if training.active and not training.steps:
                self._check_batch_norm()

        return backward

    def _refuse_without_batches(self, what: str, count: int, patience: int) -> None:
        if count >= patience and not any(self._parts.training.counts.values()):
            raise refusal(
                f"after {count} {what} no batch has been shared out: every rank would do the same work",
                "share each batch out: `x, y = worldsize.shard(x, y)`, after `import worldsize`",
            )

    def _check_batch_norm(self) -> None:
        parts, training = self._parts, self._parts.training
        device = parts.models.batch_norm_device() if training.batch.sliced else None
        if device is not None and not self._normalising.is_synced_on(device):
            parts.models.stale = True
            training.notice(
                f"BatchNorm sees a rank's slice of each batch, {training.batch.local} samples "
                f"({SYNC_VARIABLE}=1 in the job's variables: all {training.batch.total})"
            )

    def _compare(self, optimizer: Any) -> None:
        """Weights that were changed by what one rank alone has seen are not those of one training."""
        with torch.no_grad():
            held = [tensor for group in optimizer.param_groups for tensor in group["params"]]
            sums = [float(tensor.detach().double().sum()) for tensor in held]
        mine = torch.tensor(sums, dtype=torch.float64)
        everyone = self._parts.world.add_up(mine.clone()) / self._parts.training.size
        far = (mine - everyone).abs() > _TOLERANCE * everyone.abs().clamp(min=1.0)
        if self._parts.world.add_up(far.any().double()).item():
            raise refusal(
                "the ranks' weights have drifted apart: something other than the averaged gradients changes them",
                "gradients or weights are changed by what only one rank has; seed it, or use `.grad` as it is",
            )

    def make_plateau_step(self, original: Any) -> Any:
        """A learning rate that follows a number must follow the same one everywhere."""

        def step(scheduler: Any, metrics: Any, *values: Any, **keywords: Any) -> None:
            parts = self._parts
            if parts.training.active and parts.training.used:
                metrics = parts.world.add_values([float(metrics)])[0] / parts.training.size
            original(scheduler, metrics, *values, **keywords)

        return step
