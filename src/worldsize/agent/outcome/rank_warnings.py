"""Warnings about ranks that ended with 0 and left an exception, for every launcher."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from worldsize.agent.outcome.rank_failure import exception_text, read_error
from worldsize.common.named_tuple import Any
from worldsize.plan.run_paths import RunPaths
from worldsize.state.records import RunWarning

EXCEPTION = "uncaught-exception"
_SHOWN = 80


def rank_warnings(paths: RunPaths, ranks: Sequence[int]) -> Iterator[RunWarning]:
    """Yield a warning about an uncaught exception for each of `ranks`, which ended with code 0, that has recorded
    one."""
    for rank in ranks:
        error = read_error(paths, rank)
        if error is not None:
            yield exception_warning(rank, error)


def exception_warning(rank: int, error: dict[str, Any]) -> RunWarning:
    """Return the warning that a rank ended with code 0 although it has recorded the uncaught exception `error`, as
    `read_error` returns it."""
    what = "rank {} left an uncaught {}".format(rank, exception_text(error) or "exception")
    return RunWarning(EXCEPTION, f"{what}, and ended with 0", rank)


def command_text(words: Sequence[str]) -> str:
    """Return the command line `words` as text of at most 80 characters, with secrets masked."""
    from worldsize.trust.secrets import mask_argv

    text = " ".join(mask_argv(list(words)))
    return text if len(text) <= _SHOWN else text[: _SHOWN - 1] + "…"
