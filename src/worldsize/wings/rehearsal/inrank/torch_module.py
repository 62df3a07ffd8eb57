"""The torch that is being changed. Not imported: it is there already, and its types are of no use here."""

from __future__ import annotations

import sys

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

torch: Any = sys.modules["torch"]
F: Any = torch.nn.functional
