"""The check of the node's shared memory, `/dev/shm`, against the size that a job requests (`resources.shm_size`).

Standard library only: travels inside agent.pyz (Python >= 3.8).
"""

from __future__ import annotations

import os

_PLACE = "/dev/shm"
_GIB = 1 << 30


def shortage_text(asked: int, host: str, place: str = _PLACE) -> str:
    """Return a sentence with both sizes if the node `host` has less shared memory in `place` (/dev/shm) than the
    `asked` bytes of the job, or a sentence that it has none; "" if it has enough."""
    try:
        room = os.statvfs(place)
    except OSError:
        return f"{host} has no {place}, and resources.shm_size asks for {_gib(asked)}"
    size = room.f_blocks * room.f_frsize
    return f"{place} of {host} has {_gib(size)}, and resources.shm_size asks for {_gib(asked)}" if size < asked else ""


def _gib(size: int) -> str:
    return f"{size / _GIB:.3g} GiB"
