"""The times of lines in the ranks' logs: a file next to each log records the log's size over time.

The ranks write their logs themselves, without the agent between them and their files. The agent can therefore only see
how far a log has grown. A thread checks the logs, so that a slow file server does not delay the agent's loop.
"""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Iterable

from worldsize.agent.supervision.deadlines import Part
from worldsize.common.atomic_files import Descriptor, open_log
from worldsize.plan.plan import NodePlan, Plan
from worldsize.plan.run_paths import RunPaths

TYPE_CHECKING = False
if TYPE_CHECKING:
    from threading import Event, Thread

EVERY = 1.0
"""Seconds from one check to the next, which is the precision of the times."""

_LAST_LOOK = 0.5
"""Maximum number of seconds that the agent waits for the last check, even if the file server does not respond."""


class LogTimesWriter:
    """The writer of a line `BYTES SECONDS` when the size of a log has changed: the new size, and the Unix time at which
    it was read. It writes nothing for a log whose size has not changed."""

    def __init__(self, paths: RunPaths, ranks: Iterable[int]) -> None:
        self._files = [(paths.rank_log(rank), paths.rank_times(rank)) for rank in ranks]
        self._sizes = [0] * len(self._files)

    def write(self, now: float) -> None:
        """Check the sizes of the ranks' logs, and append a line with the size and the Unix time `now` to the times file
        of each log whose size has changed. Raise OSError if the disk is full, or if the run has been removed."""
        for i, (log, times) in enumerate(self._files):
            try:
                size = os.stat(log).st_size
            except FileNotFoundError:
                continue
            if size != self._sizes[i]:
                with Descriptor(open_log(times)) as file:
                    os.write(file, b"%d %.3f\n" % (size, now))
                self._sizes[i] = size


class LogTimes:
    """The times of one node's logs. No method raises. `part` is the part that acts by the clock."""

    def __init__(self) -> None:
        self.part = Part(lambda: self._start_at, self._start)
        self._start_at: float | None = None
        self._writer: LogTimesWriter | None = None
        self._thread: Thread | None = None
        self._ending: Event | None = None

    def plan_first(self, plan: Plan, paths: RunPaths, node: NodePlan) -> None:
        """Plan the first check of the sizes of this node's rank logs for one second from now. The logs of a run that
        ends before are checked once, at its end. Call this when the ranks have been started."""
        nodes = (node,) if plan.batch is None else plan.nodes
        self._writer = LogTimesWriter(paths, [rank.rank for each in nodes for rank in each.ranks])
        self._start_at = time.monotonic() + EVERY

    def finish(self) -> None:
        """Write the last sizes and times of this node's rank logs, and end the thread that checks them. Call this once,
        when the ranks have ended."""
        self._start_at = None
        if self._thread is not None and self._ending is not None:
            self._ending.set()
            self._thread.join(_LAST_LOOK)
        elif self._writer is not None:
            self._write()

    def _start(self, now: float) -> None:
        if self._start_at is None or now < self._start_at:
            return
        self._start_at = None
        from threading import Event, Thread  # many runs are over by now

        self._ending = ending = Event()
        thread = Thread(target=lambda: self._run(ending), daemon=True)
        try:
            thread.start()
        except RuntimeError:  # no thread is available
            return
        self._thread = thread

    def _run(self, ending: Event) -> None:
        """Write the sizes and times of the ranks' logs in the thread every second until `ending` is set, and once more
        then. All signals are blocked here, because the main thread handles them."""
        signal.pthread_sigmask(signal.SIG_BLOCK, signal.valid_signals())
        self._write()
        while not ending.wait(EVERY):
            self._write()
        self._write()

    def _write(self) -> None:
        assert self._writer is not None
        try:
            self._writer.write(time.time())
        except OSError:
            pass  # the disk is full, or the run was removed: other parts report it
