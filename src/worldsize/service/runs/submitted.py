"""The base class of a run and an array of runs: status, waiting, cancelling, and ownership."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence

from worldsize.common.json_values import PARSE_ERRORS
from worldsize.compute.base import IdleCallback
from worldsize.errors import RunFailed, WorldsizeError
from worldsize.plan.array import Array
from worldsize.plan.plan import Plan
from worldsize.plan.run_paths import RunPaths
from worldsize.service.ownership import danger_of_run, foreign_reason, is_own
from worldsize.service.providers import find_provider
from worldsize.state.records import RunState, Status
from worldsize.trust.directories import refuse_foreign


class SubmittedRuns(ABC):
    """A run, or an array of runs. It has no state of its own except its directory, which each call reads again.

    Runs and arrays have methods of the same names. Where a method returns a list, that of a run has one item:

    common    what all runs have in common, such as a name and a compute; NotFound while they are being prepared
    has_plan  whether that exists and can be read
    size      the number of nodes and the number of ranks of each run
    runs      the Run objects, one per run
    summary   the mapping that `worldsize list` shows of the run or array
    usage     the resources that all used, if their compute counts that and they have ended; it waits up to `patience`
              seconds for what accounting has not recorded yet
    """

    noun = ""  # "run" or "array"

    def __init__(self, paths: RunPaths, environ: Mapping[str, str]) -> None:
        self.paths = paths
        self.environ = environ
        self._own = is_own(paths)
        self._foreign = None if self._own else foreign_reason(paths)

    def __repr__(self) -> str:
        """Return one line about the run or array: the id and, where the files contain them, the state and the size. No
        compute is queried."""
        try:
            about = self._recorded_facts()
        except (WorldsizeError, OSError, *PARSE_ERRORS):
            about = []
        return f"{type(self).__name__}({', '.join([repr(self.id), *about])})"

    @abstractmethod
    def _recorded_facts(self) -> list[str]:
        """Return short texts about the run or array for `repr`, such as the state and the size, from its files. Raise
        WorldsizeError, OSError or one of PARSE_ERRORS if the files cannot be used."""

    def _repr_html_(self) -> str | None:
        """Return the HTML card that notebooks show of the run or array now; None if this installation is without the
        notebooks wing."""
        cards = find_provider("notebooks")
        return cards.html_of(self) if cards else None

    def _ipython_display_(self) -> None:
        """Display the run or array as a card in a notebook; IPython calls this method. Raise NotImplementedError if
        this installation is without the notebooks wing; IPython then shows the text."""
        cards = find_provider("notebooks")
        if cards is None:
            raise NotImplementedError
        cards.show_card(self)

    @property
    def id(self) -> str:
        """The id of the run or array, which `open_run()` and the command line accept."""
        return self.paths.run_id

    @property
    def name(self) -> str:
        """The id, under the name that Azure's jobs use for it. `common.name` is the name that people use."""
        return self.id

    @property
    def studio_url(self) -> None:
        """Always None: no web page shows runs. `worldsize report` writes one."""
        return None

    @property
    def directory(self) -> str:
        """The path of the run directory, or of the directory of the array."""
        return self.paths.root

    @property
    @abstractmethod
    def common(self) -> Plan | Array:
        """The data that all runs have in common: the Plan of a run, the Array of an array. Raise NotFound while they
        are being prepared."""

    def has_plan(self) -> bool:
        """Return whether the plan of the run, or the common data of the array, exists and can be read."""
        try:
            return bool(self.common)
        except WorldsizeError:
            return False

    @abstractmethod
    def statuses(self, idle: IdleCallback | None = None) -> list[Status]:
        """Return the status of each run now, from one query of their compute, during which `idle` is called. For each
        run that has ended, its result is written."""

    @abstractmethod
    def overall(self, statuses: Sequence[Status]) -> Status:
        """Return one status for all runs, computed from the `statuses` of each: final once all are final, and then as
        bad as the worst."""

    @abstractmethod
    def pause(self, statuses: Sequence[Status], age: float | None, took: float = 0.0) -> float:
        """Return the seconds to wait until the status of the runs is looked at again. `statuses` have been the same for
        `age` seconds (None after the first look), and the last look took `took` seconds."""

    def is_near_end(self) -> bool:
        """Return whether the run may end at any moment, so that more frequent looks at its status are worth their cost.
        False for an array."""
        return False

    def recorded_statuses(self) -> list[Status] | None:
        """Return the final status of the run, in a list, if the records of its nodes show it independently of the
        compute; None if there is no such end, or the compute may know better. Always None for an array."""
        return None

    def wait_for_notify(self) -> None:  # noqa: B027  an array has no such command
        """Wait until the command set with `notify` has been executed after the end of a run, where no other process
        waits for it. Does nothing for an array."""

    def end_after_deletion(self) -> None:
        """End the processes and jobs of a run or array that was opened before its directory was deleted."""
        self.end_remains()

    @abstractmethod
    def end_remains(self) -> int:
        """End at once the processes or scheduler jobs that this user's own runs have left after their end; return their
        number."""

    def look(self) -> Status:
        """Query the status of all runs now, and return one status for all of them, as `overall` computes it."""
        return self.overall(self.statuses())

    @property
    def status(self) -> str:
        """The state's name, such as "RUNNING" or "SUCCEEDED" (`RunState`)."""
        return self.look().state

    @property
    def is_own(self) -> bool:
        """True if the directory of the run or array existed when it was opened and belongs to this user."""
        return self._own

    def refuse_foreign(self, verb: str) -> None:
        """Raise UsageError if the run directory is not this user's own, since the contents of its files would be
        executed in this user's name. `verb` names the refused action, such as "cancel"."""
        refuse_foreign(self.paths.root, None if self._own else danger_of_run(self.paths), verb)

    def follow(
        self,
        show: Callable[[], bool] = lambda: False,
        timeout: float | None = None,
        tell: Callable[[Status], None] | None = None,
        seen: Callable[[list[Status]], object] = lambda _: None,
    ) -> list[Status]:
        """Call `show`, which returns whether something was new, until all runs are final or `timeout` seconds are over.
        Return the last statuses.

        `tell` is called with the status once for each reason why nothing happens: what the run waits for, or a compute
        that is unreachable. `seen` is called with the statuses of each look, and ends the following by returning a true
        value.

        A final run is noticed within 2 % of the time for which it has been silent, and within 0.1 s at most.
        """
        from worldsize.service.runs.follow import Follower

        return Follower(self, show, timeout, tell, seen).follow_to_end()

    def wait(self, timeout: float | None = None, check: bool = False) -> str:
        """Wait until all runs have ended, and return the name of the final state. Raise TimeoutError after `timeout`
        seconds; with `check`, raise RunFailed unless the state is SUCCEEDED."""
        status = self.overall(self.follow(timeout=timeout))
        if not status.final:
            raise TimeoutError(f"{self.noun} {self.id} is still {status.state} after {timeout or 0:g} s")
        if check and status.state != RunState.SUCCEEDED:
            raise RunFailed(status.message or status.state, status.exit_code or 1, f"{self.noun} {self.id}")
        return status.state

    def cancel(self, now: bool = False) -> Status:
        """Request the end of all runs without waiting for it; return the status before. `now` sends KILL without a
        grace period. If all have ended, only end the processes or jobs that remain, as `end_remains` does.

        Raise the compute's error if it cannot cancel; the runs then continue. Raise UsageError for another user's runs.
        """
        refuse_foreign(self.paths.root, self._foreign, "cancel")
        status = self.look()
        if status.final:
            self.end_remains()
        else:
            self.ask_to_end(now)
        return status

    def ask_to_end(self, now: bool = False) -> None:
        """Request the end of all runs as `cancel` does, without querying their status before. For callers that have
        just found that the runs have not ended."""
        self.refuse_foreign("cancel")
        from worldsize.service.runs.settle import request_end

        request_end(self.paths, lambda: self._cancel_on_compute(now))

    @abstractmethod
    def _cancel_on_compute(self, now: bool) -> None: ...


def size_text(nodes: int, ranks: int) -> str:
    """Return the size of a run as text in the form that `-w` accepts, "2x4" for 2 nodes with 4 ranks each, or in words
    if the ranks do not divide evenly over the nodes."""
    return f"{nodes}x{ranks // nodes}" if ranks % nodes == 0 else f"{nodes} nodes, {ranks} ranks"
