"""An array of runs for Python and the command line: its status, waiting for it, cancelling it, and access to each
run."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping, Sequence

from worldsize.common.atomic_files import read_object
from worldsize.common.named_tuple import Any, cast, overload
from worldsize.compute.base import IdleCallback
from worldsize.compute.capabilities import HasUsage, Usage, total_usage
from worldsize.errors import NotFound, WorldsizeError
from worldsize.plan.array import Array, array_file, element_root, read_array
from worldsize.plan.run_paths import RunPaths
from worldsize.service.runs.array_status import ArrayElements
from worldsize.service.runs.run import Run
from worldsize.service.runs.submitted import SubmittedRuns, size_text
from worldsize.state.array import array_status, array_summary, count_states
from worldsize.state.records import RunState, Status

_LOOK_EVERY = 0.5
_LOOK_SHARE = 20
"""The factor by which the pause between two looks exceeds the duration of a look: looking takes at most about 1/20 of
the time."""


class RunArray(SubmittedRuns, Sequence[Run]):
    """Several runs that were submitted together, as `submit()` and `open_array()` return them: a sequence of runs, with
    methods that concern all of them."""

    noun = "array"

    def __init__(self, paths: RunPaths, environ: Mapping[str, str]) -> None:
        super().__init__(paths, environ)
        self._array: Array | None = None
        self._known: ArrayElements | None = None

    @property
    def array(self) -> Array:
        """The content of the file array.json: the id, name, compute and size that the runs of the array have in common,
        and the inputs that vary. Raise NotFound while the array is being prepared, WorldsizeError if the file cannot be
        read."""
        if self._array is None:
            try:
                self._array = read_array(self.paths.root)
            except OSError as error:
                raise WorldsizeError(
                    f"cannot be read: {error.strerror or error}", array_file(self.paths.root)
                ) from None
        if self._array is None:
            raise NotFound("it is not an array (yet)", self.paths.root)
        return self._array

    common = array

    def _recorded_facts(self) -> list[str]:
        ended = read_object(self.paths.result).get("summary", {}).get("state")
        return [*([str(ended)] if ended else []), f"{len(self)} runs of {size_text(*self.size)}"]

    @property
    def size(self) -> tuple[int, int]:
        """The number of nodes and the number of ranks of each run."""
        return self.array.nodes, self.array.ranks

    def runs(self) -> Sequence[Run]:
        """Return the runs of the array, one per element, as a sequence, which is this RunArray itself."""
        return self

    def __len__(self) -> int:
        return self.array.elements

    @overload
    def __getitem__(self, element: int) -> Run: ...
    @overload
    def __getitem__(self, element: slice) -> list[Run]: ...
    def __getitem__(self, element: int | slice) -> Run | list[Run]:
        """Return the Run of the array's element with the number `element`, where a negative number counts from the end;
        a list of runs for a slice. Raise IndexError if there is no such element."""
        if isinstance(element, slice):
            return [self[number] for number in range(*element.indices(len(self)))]
        number = element + len(self) if element < 0 else element
        if not 0 <= number < len(self):
            raise IndexError(f"{self.id} has no element {element!r}: they are 0 to {len(self) - 1}")
        return Run(RunPaths(element_root(self.paths.root, number)), self.environ)

    def __iter__(self) -> Iterator[Run]:
        return (self[number] for number in range(len(self)))

    def values(self, element: int) -> Mapping[str, Any]:
        """Return the values of the inputs that vary over the array for one `element`, as a mapping of input name to
        value. The mapping is empty where all elements have equal inputs."""
        return self.array.values[element] if self.array.values else {}

    def statuses(self, idle: IdleCallback | None = None) -> list[Status]:
        """Return the status of every element of the array, in order, from one query of the compute for all elements
        that have not ended. Once all have ended, write the result file of the array."""
        return self._elements.statuses()

    @property
    def _elements(self) -> ArrayElements:
        if self._known is None:
            self._known = ArrayElements(self.paths, self.array, self.environ)
        return self._known

    def usage(self, statuses: Sequence[Status], patience: float = 0.0) -> Usage | None:
        """Return the resources that all started runs of the array used, summed, as `Run.usage` returns them for one
        run. None until all runs have ended, and where the compute does not count usage. Wait up to `patience` seconds
        for accounting."""
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
        """Return whether the array's element `number` has been started, found by its attempt directory, which is made
        when an element first starts."""
        return os.path.exists(RunPaths(element_root(self.paths.root, number)).attempt_dir)

    def overall(self, statuses: Sequence[Status]) -> Status:
        return array_status(self.array, statuses)

    def states(self) -> dict[str, int]:
        """Return how many elements of the array are in each state, by the name of the state."""
        return count_states(self.statuses())

    def summary(self, statuses: Sequence[Status] | None = None) -> dict[str, Any]:
        """Return the data that `worldsize list -o json` prints about the array."""
        return array_summary(self.array, self.statuses() if statuses is None else statuses)

    def pause(self, statuses: Sequence[Status], age: float | None, took: float = 0.0) -> float:
        left = [status for status in statuses if not status.final]
        compute = self._elements.compute
        least = took * _LOOK_SHARE
        if compute is None or not left:
            return max(_LOOK_EVERY, least)
        return max(compute.pause(age or 0.0, len(left), all(each.state == RunState.QUEUED for each in left)), least)

    def _cancel_on_compute(self, now: bool) -> None:
        handles = [each.handle for each in self._elements.pending_elements()]
        if handles:
            self._elements.compute_of(handles).cancel(handles, now)

    def end_remains(self) -> int:
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
            compute.cancel(left, now=True)
        return len(left)
