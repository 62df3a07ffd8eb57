"""Whether this machine has GPUs.

Standard library only: travels inside agent.pyz (Python >= 3.8).
"""

from __future__ import annotations

import os

_DEVICES = ("/dev/nvidiactl", "/dev/kfd")
"""What the drivers of NVIDIA and AMD make."""


def has_gpus() -> bool:
    """Return whether a driver of GPUs is loaded on this machine."""
    return any(map(os.path.exists, _DEVICES))
