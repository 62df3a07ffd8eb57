"""Guards that recognise scripts which distribute themselves, which make their own batches, or whose ranks diverge."""

from __future__ import annotations

import os
import signal
import sys
from typing import Any, Callable

import torch
from torch.optim.optimizer import register_optimizer_step_post_hook

from .batch_norm import SYNC_VARIABLE, BatchNormPatch
from .models import Models
from .rank_state import ScriptRefused, Training, refusal, replace

_PATIENCE = 3
"""The number of steps after which a script that has divided no batch counts as one that makes its batches itself."""

_MORE_PATIENCE = 10
"""The same number in backwards, for scripts that have no loader and step by hand, or seldom."""

_COMPARED_STEPS = (1, 2, 5, 10, 20, 50, 100, 200, 500)
_EVERY = 1000
"""The interval in steps at which ranks compare their weights, in addition to `_COMPARED_STEPS`."""

_TOLERANCE = 1e-6


REFUSAL_CODE = 2


class Guards:
    """The guards of a rank. `leave_alone` leaves a script that makes its batches itself unchanged if it reads its rank,
    and returns whether it does."""

    def __init__(
        self, training: Training, models: Models, normalising: BatchNormPatch, leave_alone: Callable[[], bool]
    ) -> None:
        self._training = training
        self._leave_alone = leave_alone
        self._models = models
        self._normalising = normalising

    def install(self) -> None:
        replace(sys, "excepthook", self._leave)
        replace(torch.distributed, "init_process_group", self._init_process_group)
        replace(torch.nn.DataParallel, "__init__", _init_one_device)
        replace(torch.autograd, "backward", self._backward)
        replace(torch.optim.lr_scheduler.ReduceLROnPlateau, "step", self._step_plateau)
        register_optimizer_step_post_hook(lambda optimizer, *_: self._check_step(optimizer))

    def _leave(self, original: Any, kind: Any, value: Any, trace: Any) -> None:
        """Print an uncaught error and, if it is a refusal, end the process with the refusal's exit code. Every rank
        prints the refusal, and the end of another rank does not interrupt this. After a RuntimeError, ValueError or
        IndexError, which may be about sizes, show a notice if batches were divided."""
        refused, batch = issubclass(kind, ScriptRefused), self._training.asked
        if refused:
            signal.signal(signal.SIGTERM, signal.SIG_IGN)
        original(kind, value, trace)
        if batch.sliced and issubclass(kind, (RuntimeError, ValueError, IndexError)) and not refused:
            self._training.show_notice(
                f"each rank has {batch.local} of a batch's {batch.total} samples: an error over sizes may come from "
                "the batch's size written as a number in the script, where `len` of a batch or `x.size(0)` would work"
            )
        if refused:
            for stream in (sys.stdout, sys.stderr):
                stream.flush()
            os._exit(REFUSAL_CODE)

    def _init_process_group(self, original: Any, *values: Any, **keywords: Any) -> Any:
        """Create the script's own process group, and stop data parallelism, because such a script distributes itself.
        Raise a refusal if the training has already begun."""
        training = self._training
        if training.active and training.used:
            raise refusal(
                "the script makes a process group after the training has begun",
                "a script that distributes itself is run without --data-parallel",
            )
        if training.active:
            training.show_notice("the script makes its own process group: it distributes itself, and is unchanged")
            training.stop()
        return original(*values, **keywords)

    def _check_step(self, optimizer: Any) -> None:
        training = self._training
        if not training.active:
            return
        training.steps += 1
        self._refuse_without_batches("steps", training.steps, _PATIENCE)
        self._check_batch_norm()
        if training.used and (training.steps in _COMPARED_STEPS or training.steps % _EVERY == 0):
            every = [tensor for group in optimizer.param_groups for tensor in group["params"]]
            self._compare([tensor for tensor in every if not self._models.is_of_slice(tensor)])

    def _backward(self, original: Any, *values: Any, **keywords: Any) -> None:
        """Run a backward pass, and check after it what is otherwise checked after optimizer steps: that batches were
        divided, and BatchNorm. Scripts that step by hand call no optimizer's hook."""
        original(*values, **keywords)
        training = self._training
        if training.active and not training.loaded:
            self._refuse_without_batches("backwards", training.backwards, _MORE_PATIENCE)
        if training.active and not training.steps:
            self._check_batch_norm()

    def _refuse_without_batches(self, what: str, count: int, patience: int) -> None:
        if count >= patience and not any(self._training.counts.values()) and not self._leave_alone():
            raise refusal(
                f"after {count} {what} no batch has been divided: every rank would do the same work",
                "divide each batch: `x, y = worldsize.shard(x, y)`, after `import worldsize`",
            )

    def _check_batch_norm(self) -> None:
        batch = self._training.batch
        device = self._models.batch_norm_device() if batch.sliced else None
        if device is not None and not self._normalising.is_synced_on(device):
            self._models.stale = True
            self._training.show_notice(
                f"BatchNorm sees a rank's slice of each batch, {batch.local} samples "
                f"({SYNC_VARIABLE}=1 in the job's variables: all {batch.total})"
            )

    def _compare(self, weights: list[Any]) -> None:
        """Raise a refusal if the trained weights differ between ranks. They were then changed by something that only
        one rank has seen, so they are not those of one training."""
        if self._training.world.differ(weights, _TOLERANCE):
            raise refusal(
                "the ranks' weights have drifted apart: something other than the averaged gradients changes them",
                "gradients or weights depend on a value that only one rank has; seed it, or use `.grad` unchanged",
            )

    def _step_plateau(self, original: Any, scheduler: Any, metrics: Any, *values: Any, **keywords: Any) -> None:
        """Step a ReduceLROnPlateau scheduler by the mean of all ranks' metrics. A learning rate that follows a number
        must follow the same number on all ranks."""
        training = self._training
        if training.active and training.used:
            metrics = training.world.add_values([float(metrics)])[0] / training.size
        original(scheduler, metrics, *values, **keywords)


def _init_one_device(original: Any, wrapper: Any, module: Any, *values: Any, **keywords: Any) -> None:
    """Initialise DataParallel with one device, which is all that a rank has."""
    if torch.cuda.is_available():
        original(wrapper, module, [torch.cuda.current_device()])
    else:
        original(wrapper, module, *values, **keywords)
