"""The caller of torch: torch's own code sees the real devices, all other code the virtual ones."""

from __future__ import annotations

import sys
from typing import Any

_OWN = __name__.rpartition(".")[0]
_PASSED_OVER = (
    "torch._tensor",
    "torch.overrides",
    "torch.utils._device",
    "torch.utils._contextlib",
    "contextlib",
    "functools",
)
_MAKING_FOR_USERS = ("torch.nn.modules.", "torch.nn.init", "torch.utils.data.")
_MEANING_CPU = (
    "torch.nn.modules.module",
    "torch.utils.data.",
    "torch.distributed._state_dict_utils",
    "torch.distributed.checkpoint",
    "torch.distributed.fsdp._state_dict_utils",
    "torch.distributed.fsdp._optim_utils",
)
_OF_USERS = ("torch.testing", "torch.utils.tensorboard", "torch.random", "torch.distributed.run")


def calling_module() -> str:
    """Return the name of the Python module whose code called the torch function that is being executed; "" if there is
    none. Wrappers of worldsize and torch are skipped."""
    frame: Any = sys._getframe(1)
    while frame is not None:
        name: str = frame.f_globals.get("__name__") or ""
        if not name.startswith(_OWN) and name not in _PASSED_OVER:
            return name
        frame = frame.f_back
    return ""


def is_called_by_torch() -> bool:
    name = calling_module()
    return (name == "torch" or name.startswith("torch.")) and not name.startswith(_OF_USERS)


def is_cpu_meant() -> bool:
    """Return whether a device `cpu` given by the caller really means the CPU. Torch's own code mostly repeats the
    device that it reads from a tensor, which may virtually be on a GPU. Modules of torch that move tensors for their
    user do mean it."""
    return not is_called_by_torch() or calling_module().startswith(_MEANING_CPU)


def is_made_by_torch() -> bool:
    """Return whether the tensor that is being created is one that torch's own code creates for itself. Layers and data
    loaders create tensors for their user, and do not count."""
    return is_called_by_torch() and not calling_module().startswith(_MAKING_FOR_USERS)
