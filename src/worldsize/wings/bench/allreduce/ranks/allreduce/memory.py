"""Check that the ranks of a node have enough memory."""

from __future__ import annotations

_MEMORY = "/proc/meminfo"


def memory_problem(size: int, buffers: int, ranks: int, free: int | None) -> str:
    """Return an error sentence if `ranks` ranks, each with `buffers` buffers of `size` bytes, need more than the `free`
    bytes; "" otherwise, and if `free` is None."""
    needed = size * buffers * ranks
    if free is None or needed <= free:
        return ""
    return (
        f"all-reduce of {_gib(size)}: the ranks of this machine, {ranks}, need {_gib(needed)}, and {_gib(free)} are "
        "free: --sizes with a smaller end, or fewer ranks per node"
    )


def free_memory(path: str = _MEMORY) -> int | None:
    """Return the number of bytes of memory that the kernel reports as available; None if it reports none."""
    try:
        with open(path) as file:
            words = [line.split() for line in file if line.startswith("MemAvailable:")]
        return int(words[0][1]) * 1024
    except (OSError, ValueError, IndexError):
        return None  # not Linux, or an old kernel: the allocation itself will show it


def _gib(size: int) -> str:
    return f"{size / (1 << 30):.3g} GiB"
