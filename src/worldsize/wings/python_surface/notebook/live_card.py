"""The card of a run in a notebook, which is updated until the run has ended.

IPython calls this code through a run, so that IPython is certainly installed; otherwise this module is not imported.
One thread follows each run, for any number of its cards, and ends with the run.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Sequence
from typing import Any

from worldsize.errors import WorldsizeError
from worldsize.service.runs.array import RunArray
from worldsize.service.runs.open import open_runs
from worldsize.service.runs.run import Run
from worldsize.state.records import Status
from worldsize.wings.python_surface.notebook.card import card_html, card_text

_EVERY = 1.0
"""Seconds between two looks at the files of a run that has not ended. Its compute is queried no more often than by
`wait`."""


def html_of(runs: Run | RunArray) -> str:
    """Return the notebook card of a run, or of an array of runs, as it is now, as HTML. Raise nothing for a damaged
    run."""
    return card_html(runs, runs.statuses())


def show_card(runs: Run | RunArray) -> None:
    """Show the card of a run, or of an array of runs, in the output of a notebook's cell. In a notebook it is updated
    until the run has ended; the cell does not wait."""
    from IPython import display, get_ipython

    statuses = runs.statuses()
    shell = get_ipython()
    shown = _bundle(runs, statuses)
    if not hasattr(shell, "kernel") or all(status.final for status in statuses):
        display.display(shown, raw=True)
        return
    handle = display.display(shown, raw=True, display_id=True)
    _follow(runs, handle)


def _bundle(runs: Run | RunArray, statuses: Sequence[Status]) -> dict[str, str]:
    return {"text/html": card_html(runs, statuses), "text/plain": card_text(runs, statuses)}


_cards: dict[str, list[Any]] = {}
"""The handles of the cards of each run that is followed, by the run's directory."""
_lock = threading.Lock()


def _follow(runs: Run | RunArray, handle: Any) -> None:
    with _lock:
        handles = _cards.get(runs.directory)
        if handles is not None:
            handles.append(handle)
            return
        _cards[runs.directory] = [handle]
    own = open_runs(runs.paths, runs.environ)  # a separate object for the thread, which must not change the caller's
    name = f"worldsize card of {runs.id}"
    threading.Thread(target=_Updates(own).follow_to_end, name=name, daemon=True).start()


class _Updates:
    def __init__(self, runs: Run | RunArray) -> None:
        self._runs = runs
        self._statuses: list[Status] = []
        self._shown = ""
        self._due = 0.0

    def follow_to_end(self) -> None:
        """Follow the run until it has ended, and update its notebook cards after each look at the compute, and from the
        run's files between two looks. After an error the cards stay as they are."""
        try:
            self._seen(self._runs.follow(show=self._tick, seen=self._seen))
        except (WorldsizeError, OSError, RuntimeError):
            pass
        finally:
            with _lock:
                _cards.pop(self._runs.directory, None)

    def _seen(self, statuses: list[Status]) -> None:
        changed = [each.state for each in statuses] != [each.state for each in self._statuses]
        self._statuses = statuses
        if changed:
            self._update()

    def _tick(self) -> bool:
        if self._statuses and time.monotonic() >= self._due:
            self._update()
        return False

    def _update(self) -> None:
        self._due = time.monotonic() + _EVERY
        bundle = _bundle(self._runs, self._statuses)
        if bundle["text/html"] == self._shown:
            return
        self._shown = bundle["text/html"]
        with _lock:
            handles = list(_cards.get(self._runs.directory, ()))
        for handle in handles:
            handle.update(bundle, raw=True)
