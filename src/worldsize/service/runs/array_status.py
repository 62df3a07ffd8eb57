"""The status of the elements of an array, from one query for all that have not ended."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence

from worldsize.common.json_values import PARSE_ERRORS
from worldsize.common.named_tuple import NamedTuple
from worldsize.compute.base import Compute, Handle
from worldsize.errors import DamagedRun, WorldsizeError
from worldsize.plan.array import Array, element_root, handles_file, is_untouched, write_search_outputs
from worldsize.plan.handle import read_handles, read_own_handle
from worldsize.plan.plan import Plan
from worldsize.plan.run_paths import RunPaths, latest_attempt
from worldsize.plan.secrets_file import write_result
from worldsize.service.computes import compute_of_run
from worldsize.service.ownership import is_own
from worldsize.service.runs import status as run_status
from worldsize.service.runs.settle import record_common_result, record_result
from worldsize.state.array import array_result
from worldsize.state.records import Observation, RunState, Status


class PendingElement(NamedTuple):
    """An element that has not ended and that has been submitted to a compute."""

    element: int
    paths: RunPaths
    handle: Handle


class AlikeElements(NamedTuple):
    """Elements that ended in the same way before they began, the plan of one of them, and their common status."""

    elements: list[RunPaths]
    plan: Plan
    status: Status


class ArrayElements:
    """The elements of an array, whose statuses it queries. It remembers which elements have ended, and queries only the
    remaining ones again each time.

    compute  the compute of all elements; None until it has been used for one of them
    """

    def __init__(self, paths: RunPaths, array: Array, environ: Mapping[str, str]) -> None:
        self._paths = paths
        self._array = array
        self._environ = environ
        self._final: dict[int, Status] = {}
        self.compute: Compute | None = None
        self._plan: Plan | None = None
        self._new: set[int] = set()
        self._alike: dict[Observation, AlikeElements] = {}

    @property
    def has_ended(self) -> bool:
        """True if all elements have ended, according to the last call of `statuses`."""
        return len(self._final) == self._array.elements

    def statuses(self) -> list[Status]:
        """Return the status of every element of the array, in order. Elements that have ended are not queried again.
        Once all have ended, write the result file of the array."""
        number = self._array.elements
        if not os.path.isdir(self._paths.root):
            return [_lost_status("its run directory was deleted")] * number
        for element in self._unfinished():
            if os.path.islink(element_root(self._paths.root, element)):  # a link may lead to another run
                self._final[element] = _lost_status("its run directory is a link")
        going_on = self._unfinished()
        self._new = {element for element in going_on if is_untouched(element_root(self._paths.root, element))}
        for element in going_on:
            if element not in self._new:
                self._remember_final(element, self._read_result(element))
        found = {**self._observe_pending(), **self._final}
        statuses = [found[element] for element in range(number)]
        if self.has_ended and not os.path.exists(self._paths.result):
            self._settle(statuses)
        return statuses

    def handles(self) -> list[Handle] | None:
        """Return the handles (native ids at the compute) of all elements, in order, from the file that is written when
        the array has been submitted; None before. Raise WorldsizeError if the file cannot be read."""
        try:
            return read_handles(self._paths.root, self._array.elements)
        except OSError as error:
            what = f"cannot be read: {error.strerror or error}"
            raise WorldsizeError(what, handles_file(self._paths.root)) from None

    def pending_elements(self) -> list[PendingElement]:
        """Return the elements that have been submitted to a compute and had not ended at the last call of `statuses`,
        each with its number, paths and handle."""
        going_on = self._unfinished()
        given = self.handles() if going_on else None
        found = (self._pending_element(element, given) for element in going_on)
        return [each for each in found if each is not None]

    def compute_of(self, handles: Sequence[Handle]) -> Compute:
        """Return the Compute of all elements of the array, opened on the first call by the first of `handles`, which
        are native ids of elements."""
        if self.compute is None:
            self.compute = compute_of_run(self._paths.root, handles[0], self._array.compute, self._environ)
        return self.compute

    def _unfinished(self) -> list[int]:
        return [element for element in range(self._array.elements) if element not in self._final]

    def _read_result(self, element: int) -> Status | None:
        paths = RunPaths(element_root(self._paths.root, element))
        try:
            return run_status.read_result(paths)
        except (OSError, DamagedRun) as error:
            return run_status.damaged_status(paths, error)

    def _remember_final(self, element: int, status: Status | None) -> None:
        if status is not None and status.final:
            self._final[element] = status

    def _pending_element(self, element: int, given: Sequence[Handle] | None) -> PendingElement | None:
        if given and element in self._new:
            return PendingElement(element, RunPaths(element_root(self._paths.root, element)), given[element])
        paths = latest_attempt(RunPaths(element_root(self._paths.root, element)))
        try:
            handle = read_own_handle(paths)
        except (OSError, DamagedRun):
            handle = None  # the handle that the array was given for the element counts
        handle = handle or (given[element] if given else None)
        return PendingElement(element, paths, handle) if handle else None

    def _observe_pending(self) -> dict[int, Status]:
        pending = self.pending_elements()
        going_on = self._unfinished()
        found: dict[int, Status] = {}
        if len(pending) < len(going_on):  # not remembered: they may be submitted soon
            found = dict.fromkeys(going_on, run_status.preparing_status(self._paths))
        pending = [each for each in pending if not self._remember_recorded_end(each)]
        if not pending:
            return found
        handles = [each.handle for each in pending]
        for each, observation in zip(pending, self.compute_of(handles).observe(handles), strict=True):
            if observation.phase == "queued" and not observation.restarts:
                found[each.element] = Status(RunState.QUEUED, observation.reason, message=observation.message)
            else:
                found[each.element] = self._fold_element(each, observation)
        for alike in self._alike.values():
            record_common_result(self._array.run_id, *alike)
        self._alike = {}
        return found

    def _remember_recorded_end(self, pending: PendingElement) -> bool:
        """Read the end of the element `pending` from the records that its nodes wrote, and remember it. Return whether
        the records show an end, so that the compute need not be queried for the element."""
        if pending.element in self._new:
            return False
        try:
            told = run_status.status_from_records(pending.paths, self._plan_of(pending.paths), pending.handle)
        except (OSError, *PARSE_ERRORS):
            return False  # the compute is queried
        self._remember_final(pending.element, told)
        return told is not None

    def _fold_element(self, pending: PendingElement, observation: Observation) -> Status:
        element, paths, _ = pending
        if element in self._new and observation.phase == "ended" and is_untouched(paths.root):
            status = self._fold_unstarted_element(pending, observation)
        else:
            status = self._fold_status(pending, observation, record_result)
        self._remember_final(element, status)
        return status

    def _fold_unstarted_element(self, pending: PendingElement, observation: Observation) -> Status:
        """Return the status of an array element that ended before it was started, from the compute's observation.
        Elements with equal observations share one status, and their result is recorded once for all of them."""
        if observation in self._alike:
            known = self._alike[observation]
            known.elements.append(pending.paths)
            return known.status

        def record(paths: RunPaths, plan: Plan, status: Status) -> None:
            self._alike[observation] = AlikeElements([paths], plan, status)

        return self._fold_status(pending, observation, record)

    def _fold_status(
        self, pending: PendingElement, observation: Observation, record: run_status.RecordResult
    ) -> Status:
        _, paths, handle = pending
        compute = self.compute_of([handle])
        # On other computes "absent" means that nothing is left, and an element that never started has left nothing.
        remains = "local" in compute.capabilities and "queue" not in handle
        try:
            return run_status.fold_observation(
                paths, compute, self._plan_of(paths), handle, observation, remains, record
            )
        except (OSError, *PARSE_ERRORS) as error:
            return run_status.damaged_status(paths, error)

    def _plan_of(self, paths: RunPaths) -> Plan:
        """Return the plan of the element in `paths`: the plan that was read first, with the element's own run id. The
        plans of the elements do not differ in anything else that their state depends on. Raise ValueError if there is
        no plan file."""
        if self._plan is None:
            self._plan = run_status.read_plan(paths)
        if self._plan is None:
            raise ValueError("it has no plan")
        return self._plan._replace(run_id=paths.run_id)

    def _settle(self, statuses: Sequence[Status]) -> None:
        if not is_own(self._paths):
            return
        try:
            write_search_outputs(self._paths.root, self._array)
        except (OSError, WorldsizeError):
            pass  # the search's outputs stay unwritten; the end of the array does not depend on them
        try:
            write_result(self._paths, array_result(self._array, statuses))
        except OSError:
            pass  # read-only for this user, or a full disk: every client computes the same result


def _lost_status(what: str) -> Status:
    return Status(RunState.LOST, exit_code=1, message=what)
