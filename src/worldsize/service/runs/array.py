"""An array of runs, as Python and the command line hold it: look, wait, cancel, and each of its runs."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, cast

from worldsize.common.numbers import parse_digits
from worldsize.compute.capabilities import HasUsage, Usage, total_usage
from worldsize.errors import NotFound, RunFailed, UsageError, WorldsizeError
from worldsize.plan.array import Array, array_file, element_root, read_array
from worldsize.plan.run_paths import RunPaths
from worldsize.service.ownership import danger_of_run, foreign_reason, is_own
from worldsize.service.runs.array_status import ArrayElements
from worldsize.service.runs.run import Run
from worldsize.state.array import array_status, array_summary, count_states
from worldsize.state.records import RunState, Status
from worldsize.trust.directories import refuse_foreign

_PAUSE = 0.05
_LOOK_EVERY = 0.5
_LOOK_SHARE = 20
"""Looking takes at most one part in so many of the time."""


class RunArray(Sequence[Run]):
    """Several runs submitted together: a sequence of them, and questions about all."""

    def __init__(self, paths: RunPaths, environ: Mapping[str, str]) -> None:
        self.paths = paths
        self._environ = environ
        self._array: Array | None = None
        self._known: ArrayElements | None = None
        self._own = is_own(paths)
        self._foreign = None if self._own else foreign_reason(paths)

    def __repr__(self) -> str:
        return f"RunArray({self.id!r})"

    @property
    def id(self) -> str:
        return self.paths.run_id

    @property
    def directory(self) -> str:
        return self.paths.root

    @property
    def array(self) -> Array:
        """What its elements have in common. Raises NotFound while it is being prepared."""
        if self._array is None:
            try:
                self._array = read_array(self.paths.root)
            except OSError as error:
                raise WorldsizeError(
                    f"cannot be read: {error.strerror or error}", array_file(self.paths.root)
                ) from None
        if self._array is None:
            raise NotFound("it is no array of runs (yet)", self.paths.root)
        return self._array

    def __len__(self) -> int:
        return self.array.elements

    def __getitem__(self, element: Any) -> Any:
        """The run of one element; a list of them for a slice."""
        if isinstance(element, slice):
            return [self[number] for number in range(*element.indices(len(self)))]
        number = element + len(self) if element < 0 else element
        if not 0 <= number < len(self):
            raise IndexError(f"{self.id} has no element {element!r}: they are 0 to {len(self) - 1}")
        return Run(RunPaths(element_root(self.paths.root, number)), self._environ)

    def __iter__(self) -> Iterator[Run]:
        return (self[number] for number in range(len(self)))

    def values(self, element: int) -> Mapping[str, Any]:
        """The inputs of an element that vary; nothing where the elements are equal."""
        return self.array.values[element] if self.array.values else {}

    def statuses(self) -> list[Status]:
        """Every element's, from one query for all that have not ended. The final state of all is settled."""
        return self._elements.statuses()

    @property
    def _elements(self) -> ArrayElements:
        if self._known is None:
            self._known = ArrayElements(self.paths, self.array, self._environ)
        return self._known

    def usage(self, patience: float = 0.0) -> Usage | None:
        """What all elements together used, where their compute counts that and they have ended."""
        given = self._elements.handles()
        if given is None or not self._elements.has_ended:
            return None
        compute = self._elements.compute_of(given)
        if "usage" not in compute.capabilities:
            return None
        begun = [handle for number, handle in enumerate(given) if self._has_begun(number)]
        used = [each for each in cast(HasUsage, compute).usage(begun, patience) if each is not None] if begun else []
        return total_usage(used) if used else None

    def _has_begun(self, number: int) -> bool:
        """An element's directories are made when it first starts."""
        return os.path.exists(RunPaths(element_root(self.paths.root, number)).attempt_dir)

    def look(self) -> Status:
        """All elements as one: final once all are, and then as bad as the worst."""
        return array_status(self.array, self.statuses())

    @property
    def status(self) -> str:
        """The state's name of the whole, such as "RUNNING" or "SUCCEEDED"."""
        return self.look().state

    def states(self) -> dict[str, int]:
        """How many elements are in each state."""
        return count_states(self.statuses())

    def summary(self) -> dict[str, Any]:
        return array_summary(self.array, self.statuses())

    def follow(self, show: Callable[[list[Status]], object], timeout: float | None = None) -> list[Status]:
        """Call `show` with what is known until all elements are final or `timeout` seconds are over.

        Where nothing happens it looks less often; the end shows at once on a compute where the array settles itself.
        """
        end = None if timeout is None else time.monotonic() + timeout
        statuses: list[Status] = []
        changed = time.monotonic()
        while True:
            before, known = time.monotonic(), statuses
            statuses = self.statuses()
            show(statuses)
            if all(status.final for status in statuses):
                return statuses
            changed = changed if statuses == known else before
            until = before + max(self.pause(statuses, before - changed), (time.monotonic() - before) * _LOOK_SHARE)
            while time.monotonic() < until and not os.path.exists(self.paths.result):
                if end is not None and time.monotonic() >= end:
                    return statuses
                time.sleep(_PAUSE)

    def pause(self, statuses: Sequence[Status], age: float = 0.0) -> float:
        """Seconds until it should be looked at again, where it is so since `age` seconds."""
        left = [status for status in statuses if not status.final]
        compute = self._elements.compute
        if compute is None or not left:
            return _LOOK_EVERY
        return compute.pause(age, len(left), all(status.state == RunState.QUEUED for status in left))

    def wait(self, timeout: float | None = None, check: bool = False) -> str:
        """The final state of all. TimeoutError after `timeout` seconds; with `check`, RunFailed unless it SUCCEEDED."""
        statuses = self.follow(lambda _: None, timeout)
        status = array_status(self.array, statuses)
        if not status.final:
            raise TimeoutError(f"array {self.id} is still {status.state} after {timeout or 0:g} s")
        if check and status.state != RunState.SUCCEEDED:
            raise RunFailed(status.message or status.state, status.exit_code or 1, f"array {self.id}")
        return status.state

    def cancel(self, now: bool = False) -> Status:
        """Ask for the end of all elements; does not wait for it. `now`: KILL without grace. The state before.

        UsageError for another user's array.
        """
        refuse_foreign(self.paths.root, self._foreign, "cancel")
        status = self.look()
        if status.final:
            self.end_remains()
        else:
            self.ask_to_end(now)
        return status

    def ask_to_end(self, now: bool = False) -> None:
        """`cancel`, for whoever has just looked and found it going on."""
        refuse_foreign(self.paths.root, None if self._own else danger_of_run(self.paths), "cancel")
        from worldsize.service.runs.settle import request_end

        request_end(self.paths, lambda: self._cancel_on_compute(now))

    def _cancel_on_compute(self, now: bool) -> None:
        handles = [each.handle for each in self._elements.pending_elements()]
        if handles:
            self._elements.compute_of(handles).cancel_all(handles, now)

    def end_remains(self) -> int:
        """End at once what elements that are final may have left, of an array of this user's own; how many jobs or
        processes that were."""
        given = self._elements.handles()
        if given is None or not self._own:
            return 0
        compute = self._elements.compute_of(given)
        if "local" in compute.capabilities:
            from worldsize.compute.local.leftovers import kill_element_leftovers

            return kill_element_leftovers(self.id, self.paths.root)
        observations = compute.observe(given)
        left = [each for each, seen in zip(given, observations, strict=True) if seen.phase in ("queued", "running")]
        if left:
            compute.cancel_all(left, now=True)
        return len(left)

    def element(self, text: str) -> Run:
        """The run that `text` numbers. UsageError for what is none of them."""
        number = parse_digits(text)
        if number is None or number >= len(self):
            raise UsageError(f"{self.id} has no element {text:.40}", None, f"they are 0 to {len(self) - 1}")
        run: Run = self[number]
        return run
