"""Virtual GPUs: in a rehearsal, torch on a machine without GPUs answers as if there were the asked number of them.

Tensors stay in the CPU's memory. What a script sees of a tensor that it sent to `cuda` is the virtual device, kept as
a mark on the tensor and carried from arguments to results by a function mode; torch's own code sees the truth, and
works as it does on a CPU. See docs/rehearsal.md for what is handled, refused and unknown.
Loaded by sitecustomize with torch (`import_hook`), where WORLDSIZE_INRANK names it. Standard library and torch only.
"""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any


def on_torch(torch: Any) -> None:
    """Changes `torch`, which has just been imported, for this process and all that it forks. RuntimeError for an old
    one."""
    if tuple(int(part) for part in torch.__version__.split(".")[:2]) < (2, 2):
        raise RuntimeError(f"worldsize rehearsal: virtual GPUs need torch 2.2, and this is {torch.__version__}")
    from . import install

    install.install_all()
