"""Concurrent execution of several tasks that wait for the network.

Standard library only: travels inside agent.pyz (Python >= 3.8).
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Mapping

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import TypeVar

    Key = TypeVar("Key")
    Result = TypeVar("Result")


def results_of(tasks: Mapping[Key, Callable[[], Result]], seconds: float) -> dict[Key, Result]:
    """Call the functions in `tasks` at the same time, each in a thread, and return, by their keys, the results of those
    that ended within `seconds` seconds. A task that is late continues in a daemon thread, and its result is dropped."""
    results: dict[Key, Result] = {}
    changed = threading.Condition()
    threads = [threading.Thread(target=_do, args=(key, tasks[key], results, changed), daemon=True) for key in tasks]
    for thread in threads:
        thread.start()
    deadline = time.monotonic() + seconds
    for thread in threads:
        thread.join(max(0.0, deadline - time.monotonic()))
    with changed:
        return dict(results)


def _do(key: Key, task: Callable[[], Result], results: dict[Key, Result], changed: threading.Condition) -> None:
    result = task()
    with changed:
        results[key] = result
