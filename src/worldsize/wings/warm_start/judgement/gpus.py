"""The check whether this machine has GPUs.

Standard library only: travels inside agent.pyz (Python >= 3.8).
"""

from __future__ import annotations

import os

_DEVICES = ("/dev/nvidiactl", "/dev/kfd")
"""The device files that the drivers of NVIDIA and AMD create."""


def has_gpus() -> bool:
    """Return whether a GPU driver is loaded on this machine."""
    return any(map(os.path.exists, _DEVICES))
