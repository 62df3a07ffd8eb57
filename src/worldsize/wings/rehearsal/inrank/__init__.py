"""Virtual GPUs: in a rehearsal, torch on a machine without GPUs answers as if there were the requested number of them.

Tensors stay in the CPU's memory. A tensor that a script sends to `cuda` gets the virtual device as a mark, which the
script sees. A function mode carries the marks from arguments to results. Torch's own code sees the real device, and
works as it does on a CPU. docs/how-to/training/rehearsal.md describes what is supported, refused and unknown.

sitecustomize loads this package with torch (`import_hook`), if WORLDSIZE_INRANK names it. Standard library and torch
only.
"""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any


def on_torch(torch: Any) -> None:
    """Install the virtual GPUs of a rehearsal in the module `torch`, which has just been imported, for this process and
    all its forks. Raise RuntimeError if its version is older than 2.2."""
    if tuple(int(part) for part in torch.__version__.split(".")[:2]) < (2, 2):
        raise RuntimeError(f"worldsize rehearsal: virtual GPUs need torch 2.2, and this is {torch.__version__}")
    from . import install

    install.install_all()
