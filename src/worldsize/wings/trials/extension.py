"""Searches as the core asks for them (service/providers.py). What each question needs is imported with it."""

from __future__ import annotations

from worldsize.jobspec.job import Job

TYPE_CHECKING = False
if TYPE_CHECKING:
    from worldsize.cli.runs.array import ArrayProgress
    from worldsize.jobspec.distributions.base import Arrangement
    from worldsize.service.runs.array import RunArray
    from worldsize.wings.trials.job import Search


def make_search(job: Job) -> Search:
    from worldsize.wings.trials.job import make_search

    return make_search(job)


def with_own_tuning(arrangement: Arrangement) -> Arrangement:
    from worldsize.wings.trials.job import with_own_tuning

    return with_own_tuning(arrangement)


def open_progress(array: RunArray, quiet: bool) -> ArrayProgress:
    from worldsize.wings.trials.progress import SearchProgress

    return SearchProgress(array, quiet)


def best_lines(array: RunArray) -> list[str]:
    from worldsize.wings.trials.progress import best_lines

    return best_lines(array)
