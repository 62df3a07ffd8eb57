"""Several runs in one submission: HPC Pack has no arrays, so each is a job, which waits for its parents. Pure."""

from __future__ import annotations

from collections.abc import Sequence

_MOST_PARENTS = 100


def parents(jobs: Sequence[int], at_once: int | None) -> tuple[int, ...]:
    """Those of `jobs`, the elements before it, that have to end before the next element may start.

    All but the last `at_once - 1`, and not only the one that is `at_once` before it: when a waiting one is cancelled,
    its own parents still run. Of long arrays the last hundred stand for all.
    """
    if not at_once:
        return ()
    return tuple(jobs[: len(jobs) - at_once + 1][-_MOST_PARENTS:]) if len(jobs) >= at_once else ()
