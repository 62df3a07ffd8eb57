"""Search for a user's regular expression in lines of output, with a time limit for each line."""

from __future__ import annotations

import re
import signal
from types import TracebackType

from worldsize.common.named_tuple import Any
from worldsize.errors import UsageError

_SECONDS = 5.0


class LineSearch:
    """A context inside which a search in one line ends after five to ten seconds, because a pattern such as `(a+)+b`
    may take practically forever. Python's regular expressions handle signals, so SIGALRM ends the search; this works
    only in the main thread."""

    def __init__(self, pattern: re.Pattern[str], seconds: float = _SECONDS) -> None:
        self.pattern = pattern
        self._seconds = seconds
        self._count = 0
        self._seen = 0
        self._is_searching = False
        self._former: Any = None

    def __enter__(self) -> LineSearch:
        self._former = signal.signal(signal.SIGALRM, self._look)
        signal.setitimer(signal.ITIMER_REAL, self._seconds, self._seconds)
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, self._former)

    def find(self, line: str) -> re.Match[str] | None:
        """Return the first match of the user's pattern in a line of output; None if there is none. Raise UsageError if
        the search takes too long."""
        self._count += 1
        self._is_searching = True
        try:
            return self.pattern.search(line)
        finally:
            self._is_searching = False

    def _look(self, *_: object) -> None:
        if self._is_searching and self._seen == self._count:
            what = f"{self.pattern.pattern!r:.100} takes more than {self._seconds:g} s for one line"
            raise UsageError(what, "--pattern", "avoid a repetition within a repetition, such as (a+)+")
        self._seen = self._count
