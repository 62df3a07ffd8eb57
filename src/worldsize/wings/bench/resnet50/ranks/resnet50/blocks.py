"""Timing of steps in blocks. The device is synchronised at the ends of a block, and never inside one."""

from __future__ import annotations

import time

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable

MOST_BLOCKS = 10


def block_sizes(steps: int) -> list[int]:
    """Divide `steps` training steps, at least one, into at most MOST_BLOCKS blocks whose sizes differ by at most one.
    Return the sizes."""
    count = min(steps, MOST_BLOCKS)
    each, more = divmod(steps, count)
    return [each + (place < more) for place in range(count)]


def time_blocks(
    step: Callable[[], None],
    synchronize: Callable[[], None],
    sizes: list[int],
    clock: Callable[[], float] = time.perf_counter,
) -> list[float]:
    """Execute blocks of training steps: `step` is called as often as each number in `sizes` states, and `synchronize`
    waits for the device after each block. Return the seconds of each block."""
    found = []
    synchronize()
    for size in sizes:
        began = clock()
        for _ in range(size):
            step()
        synchronize()
        found.append(clock() - began)
    return found


def communication_share(together: list[float], alone: list[float], sizes: list[int], sizes_alone: list[int]) -> float:
    """Return by how much a training step is shorter without communication, as a share of the whole step; 0 if it is not
    shorter.

    `together` and `alone` are the seconds of blocks with and without communication, `sizes` and `sizes_alone` their
    numbers of steps. The share is computed from the medians of the blocks. Communication that overlaps with the
    computation of gradients takes no time of its own, and counts only as far as it makes the step longer.
    """
    whole = median([seconds / size for seconds, size in zip(together, sizes)])
    rest = median([seconds / size for seconds, size in zip(alone, sizes_alone)])
    return max(0.0, 1.0 - rest / whole) if whole > 0 else 0.0


def median(values: list[float]) -> float:
    ordered = sorted(values)
    middle = len(ordered) // 2
    return ordered[middle] if len(ordered) % 2 else (ordered[middle - 1] + ordered[middle]) / 2
