"""Whose code asks: torch's own sees the truth, all other code the virtual devices."""

from __future__ import annotations

import sys

TYPE_CHECKING = False
if TYPE_CHECKING:
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
_LIKE_USERS = ("torch.nn.modules.", "torch.nn.init", "torch.utils.data.")
_SAYING_CPU = (
    "torch.nn.modules.module",
    "torch.utils.data.",
    "torch.distributed._state_dict_utils",
    "torch.distributed.checkpoint",
    "torch.distributed.fsdp._state_dict_utils",
    "torch.distributed.fsdp._optim_utils",
)
_OF_USERS = ("torch.testing", "torch.utils.tensorboard")


def module_asking() -> str:
    """The name of the module whose code called into torch; wrappers, ours and torch's, are passed over."""
    frame: Any = sys._getframe(1)
    while frame is not None:
        name: str = frame.f_globals.get("__name__") or ""
        if not name.startswith(_OWN) and name not in _PASSED_OVER:
            return name
        frame = frame.f_back
    return ""


def torch_asks() -> bool:
    name = module_asking()
    return (name == "torch" or name.startswith("torch.")) and not name.startswith(_OF_USERS)


def cpu_is_meant() -> bool:
    """Whether who says `cpu` means it. Torch's own code mostly repeats what it has seen of a tensor that is elsewhere;
    where it moves things for its user, it means it."""
    return not torch_asks() or module_asking().startswith(_SAYING_CPU)


def torch_makes() -> bool:
    """Whether torch's own code makes a tensor, and not a layer or a data loader, which do it for their user."""
    return torch_asks() and not module_asking().startswith(_LIKE_USERS)
