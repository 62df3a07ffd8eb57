"""A regular expression that comes to no end."""

from __future__ import annotations

import re
import signal

import pytest

from worldsize.errors import UsageError
from worldsize.wings.bench.training.line_search import LineSearch


def test_a_search_without_end_is_ended_and_says_so() -> None:
    before = signal.getsignal(signal.SIGALRM)
    with LineSearch(re.compile(r"(a+)+b"), 0.01) as search:
        assert search.find("aab") is not None
        with pytest.raises(UsageError, match=r"takes more than 0\.01 s for one line"):
            search.find("a" * 100)
    assert signal.getsignal(signal.SIGALRM) == before
    assert signal.getitimer(signal.ITIMER_REAL) == (0.0, 0.0)


def test_only_a_search_that_was_there_before_is_ended() -> None:
    search = LineSearch(re.compile("a"))
    search._count, search._is_searching = 7, True
    search._look()  # it may have begun just now
    search._count += 1
    search._look()
    search._is_searching = False
    search._look()  # a file system that takes its time
    search._is_searching = True
    with pytest.raises(UsageError):
        search._look()
