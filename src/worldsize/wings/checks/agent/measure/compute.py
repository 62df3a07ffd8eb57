"""Measurement of this node's computing speed, with one thread for each core that the process may use, up to four.

The work is MD5 of a buffer. No processor has instructions for it, so its rate follows the clock. SHA-256 is five times
as fast on processors that have such instructions, and would show nothing about a training. The rate is that of the time
in which a thread ran or was kept from running. The time in which it waited for a core that another process had is left
out, and reported separately. On a machine of two cores whose eight threads measure at once, the rate stays within 5 %.
Standard library only: travels inside agent.pyz (Python >= 3.8).
"""

from __future__ import annotations

import hashlib
import os
import threading
import time
from collections.abc import Callable, Sequence

from worldsize.common.atomic_files import read_if_possible
from worldsize.common.named_tuple import Any, NamedTuple
from worldsize.wings.checks.agent.measure.throttling import statistics_files, throttled_seconds

MAX_THREADS = 4
SECONDS = 0.8
BUFFER_BYTES = 2 << 20
"""The size of the buffer: 3 ms of work between two reads of the clock. Reading the clock needs the interpreter's lock,
which is free then."""

SCHEDULING = "/proc/thread-self/schedstat"
"""The file with the nanoseconds that the thread ran, the nanoseconds that it waited for a core, and how often it ran
(kernel documentation: Documentation/scheduler/sched-stats.rst)."""


class Work(NamedTuple):
    """The work of one thread: bytes, and the seconds that passed, that it ran, and that it waited for a core."""

    bytes: int
    wall: float
    ran: float
    waited: float


def compute_speed(seconds: float = SECONDS, root: str = "/") -> dict[str, Any]:
    """Measure this node's computing speed for `seconds` seconds. Return the values of `figures`, and the name of the
    computation as `kernel`."""
    name, digest = _kernel()
    files = statistics_files(root)
    before = throttled_seconds(files)
    work = _in_threads(_thread_count(), lambda: _one_thread(digest, seconds))
    return {"kernel": name, **figures(work, throttled_seconds(files) - before)}


def figures(work: Sequence[Work], throttled: float) -> dict[str, Any]:
    """Return the figures of computing speed that the head judges, from the `work` of each thread. `throttled` is the
    number of seconds, added over the cores, in which the control group was kept from running; kernels count them as
    waiting or as sleeping.

    rate       bytes per second of the time that was not given to other processes
    running    bytes per second of CPU time
    waited     the share of the time that other processes had
    throttled  the share of the time that the control group's limit took
    stopped    the share of the time in which threads neither ran nor waited: stopped by signals, or frozen
    """
    done, wall, ran, waited = (float(sum(values)) for values in zip(*work))
    throttled = min(max(throttled, 0.0), max(wall - ran, 0.0))
    others = min(max(waited - throttled, 0.0), max(wall - ran, 0.0))
    stopped = max(wall - ran - others - throttled, 0.0)
    own = max(wall - others, 1e-9)
    return {
        "threads": len(work),
        "rate": done / own,
        "running": done / max(ran, 1e-9),
        "waited": others / wall,
        "throttled": throttled / wall,
        "stopped": stopped / wall,
    }


def _kernel() -> tuple[str, Callable[[bytes], Any]]:
    """Return the name and the function of the computation whose speed is measured: MD5, or SHA-512 if a machine in FIPS
    mode does not have MD5."""
    try:
        hashlib.md5()
    except ValueError:
        return "sha512", hashlib.sha512
    return "md5", hashlib.md5


def _thread_count() -> int:
    return max(1, min(MAX_THREADS, len(os.sched_getaffinity(0))))


def _in_threads(count: int, work: Callable[[], Work]) -> list[Work]:
    """Run `work` in `count` threads that start at the same moment, and return their results."""
    found: list[Work] = []
    barrier = threading.Barrier(count)

    def run() -> None:
        barrier.wait()
        found.append(work())

    threads = [threading.Thread(target=run, daemon=True) for _ in range(count)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return found


def _one_thread(digest: Callable[[bytes], Any], seconds: float) -> Work:
    buffer, done = bytes(BUFFER_BYTES), 0
    began, ran, waited = time.monotonic(), time.thread_time(), _waiting_seconds()
    while time.monotonic() - began < seconds:
        digest(buffer)
        done += BUFFER_BYTES
    wall, ran, now = time.monotonic() - began, time.thread_time() - ran, _waiting_seconds()
    return Work(done, wall, ran, max(wall - ran, 0.0) if waited is None or now is None else now - waited)


def _waiting_seconds() -> float | None:
    """Return the seconds that this thread has waited for a core; None if the kernel does not count them. All the time
    in which the thread did not run then counts as waiting."""
    fields = read_if_possible(SCHEDULING, 200).split()
    return int(fields[1]) / 1e9 if len(fields) == 3 and all(map(bytes.isdigit, fields)) and fields[2] != b"0" else None
