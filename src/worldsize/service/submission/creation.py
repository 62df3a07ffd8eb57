"""A new run, from its directory until the compute has it: whole, or not there."""

from __future__ import annotations

import signal
from collections.abc import Callable

from worldsize.common.atomic_files import storage_error
from worldsize.plan.run_paths import RunPaths
from worldsize.service.runs.preparation_mark import mark_preparing, unmark_preparing
from worldsize.store.runs import create_run, discard_run

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import TypeVar

    Filled = TypeVar("Filled")

TERMINAL_SIGNALS = (signal.SIGINT, signal.SIGQUIT, signal.SIGHUP)
"""What a terminal sends to all who belong to it."""


def create_and_submit(
    home: str,
    runs_dir: str | None,
    fill: Callable[[RunPaths], Filled],
    submit: Callable[[Filled, RunPaths], None],
    *,
    array: bool = False,
) -> RunPaths:
    """The run that `fill` has written into its new directory, and `submit` given to the compute.

    Whatever ends `fill` leaves nothing behind; an OSError of it is raised as a StorageError. What a terminal sends is
    heard while it works. Before it waits until the directory can go again, and after it until the run's processes are
    known and have left the terminal.
    """
    before = signal.pthread_sigmask(signal.SIG_BLOCK, TERMINAL_SIGNALS)
    try:
        paths = create_run(home, runs_dir, array=array)
        mark_preparing(paths)
        filled = _fill(fill, home, paths, before)
        try:
            submit(filled, paths)
        finally:
            unmark_preparing(paths)
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)
    return paths


def _fill(fill: Callable[[RunPaths], Filled], home: str, paths: RunPaths, heard: set[int | signal.Signals]) -> Filled:
    try:
        try:
            signal.pthread_sigmask(signal.SIG_SETMASK, heard)
            return fill(paths)
        finally:
            signal.pthread_sigmask(signal.SIG_BLOCK, TERMINAL_SIGNALS)
    except OSError as error:
        discard_run(home, paths)
        raise storage_error(error, error.filename or paths.root) from None
    except BaseException:
        discard_run(home, paths)
        raise
