"""A parallel `map` whose threads work ahead of the consumer by a bounded number of items."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import TypeVar

    Item = TypeVar("Item")
    Result = TypeVar("Result")


def map_ahead(
    pool: ThreadPoolExecutor, function: Callable[[Item], Result], items: Iterable[Item], ahead: int
) -> Iterator[Result]:
    """Call `function` on each item in the threads of `pool`, and yield the results in the order of the items. Items are
    read as they are needed: at most `ahead` items beyond the one whose result is yielded next are submitted. Raise the
    error of the first item that fails; items that have not begun by then are cancelled."""
    running: deque[Future[Result]] = deque()
    try:
        for item in items:
            running.append(pool.submit(function, item))
            if len(running) > ahead:
                yield running.popleft().result()
        while running:
            yield running.popleft().result()
    finally:
        for each in running:
            each.cancel()
