"""torch, without its types: it is the script's, of any version since 2.1."""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    torch: Any
else:
    import torch

__all__ = ["torch"]
