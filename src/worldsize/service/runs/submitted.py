"""What was submitted at once, a run or an array of runs: how it is, its end, whose it is."""

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
    """A run, or an array of runs. Holds no state but its directory: every question reads it anew.

    What is asked of either is asked of both by the same names, and where it is a list, that of a run has one item:
    common    what all runs have in common, such as a name and a compute; NotFound while they are being prepared
    has_plan  whether that is there, and can be read
    size      nodes and ranks of each run
    runs      each run
    summary   what a list shows of it
    usage     what all used, where their compute counts that and they have ended; its `patience` seconds are for what
              accounting has not noted yet
    """

    noun = ""  # "run" or "array"

    def __init__(self, paths: RunPaths, environ: Mapping[str, str]) -> None:
        self.paths = paths
        self.environ = environ
        self._own = is_own(paths)
        self._foreign = None if self._own else foreign_reason(paths)

    def __repr__(self) -> str:
        """One line: the id, and, where the files tell them, the state and the size. No compute is asked."""
        try:
            about = self._recorded_facts()
        except (WorldsizeError, OSError, *PARSE_ERRORS):
            about = []
        return f"{type(self).__name__}({', '.join([repr(self.id), *about])})"

    @abstractmethod
    def _recorded_facts(self) -> list[str]:
        """What its files tell of it, in words. WorldsizeError, OSError, PARSE_ERRORS where they tell nothing."""

    def _repr_html_(self) -> str | None:
        """What notebooks show of it now; None where this installation is without that."""
        cards = find_provider("notebooks")
        return cards.html_of(self) if cards else None

    def _ipython_display_(self) -> None:
        """IPython's own word for: show yourself. NotImplementedError, after which it shows the text, without the
        wing."""
        cards = find_provider("notebooks")
        if cards is None:
            raise NotImplementedError
        cards.show_card(self)

    @property
    def id(self) -> str:
        """What `open_run()` and the command line take for it."""
        return self.paths.run_id

    @property
    def name(self) -> str:
        """The id, under the name that Azure's jobs have for it; `common.name` is what people call it."""
        return self.id

    @property
    def studio_url(self) -> None:
        """None: no web page shows runs. `worldsize report` writes one."""
        return None

    @property
    def directory(self) -> str:
        """The path of its run directory."""
        return self.paths.root

    @property
    @abstractmethod
    def common(self) -> Plan | Array:
        """What its runs have in common. NotFound while they are being prepared."""

    def has_plan(self) -> bool:
        """Return whether what its runs have in common is there, and can be read."""
        try:
            return bool(self.common)
        except WorldsizeError:
            return False

    @abstractmethod
    def statuses(self, idle: IdleCallback | None = None) -> list[Status]:
        """Return the status of each run now, from one query of their compute, during which `idle` is called; a final
        one is settled."""

    @abstractmethod
    def overall(self, statuses: Sequence[Status]) -> Status:
        """Return the status of all as one: final once all are, and then as bad as the worst."""

    @abstractmethod
    def pause(self, statuses: Sequence[Status], age: float | None, took: float = 0.0) -> float:
        """Seconds until they should be looked at again, where they are so since `age` seconds (None: it was the first
        look), and the look `took` some."""

    def is_near_end(self) -> bool:
        """Return whether a look is worth its price, since the end may be seen at any moment."""
        return False

    def recorded_statuses(self) -> list[Status] | None:
        """Return the end that every node has left a record of, whatever the compute may say; None where it may know
        better."""
        return None

    def wait_for_notify(self) -> None:  # noqa: B027  an array has none
        """Wait for the command of `notify`, where nothing else does."""

    def end_after_deletion(self) -> None:
        """End what was known before its directory was deleted."""
        self.end_remains()

    @abstractmethod
    def end_remains(self) -> int:
        """End at once what is left of those of this user's own that are final; how many jobs or processes that were."""

    def look(self) -> Status:
        """Return the status of all as one, now."""
        return self.overall(self.statuses())

    @property
    def status(self) -> str:
        """The state's name, such as "RUNNING" or "SUCCEEDED" (`RunState`)."""
        return self.look().state

    @property
    def is_own(self) -> bool:
        """Whether it was there when it was looked at first, and this user's own."""
        return self._own

    def refuse_foreign(self, verb: str) -> None:
        """UsageError for what lies in another user's directory: what it says would be done in this user's name."""
        refuse_foreign(self.paths.root, None if self._own else danger_of_run(self.paths), verb)

    def follow(
        self,
        show: Callable[[], bool] = lambda: False,
        timeout: float | None = None,
        tell: Callable[[Status], None] | None = None,
        seen: Callable[[list[Status]], object] = lambda _: None,
    ) -> list[Status]:
        """Call `show`, which says whether something was new, until all is final or `timeout` seconds are over.

        `tell` gets the status once for each reason why nothing happens: what it waits for, a compute that is away.
        `seen` gets what each look has found, and may end it all by something true.

        A final run is noticed within 2 % of the time that it has been silent, at most 0.1 s.
        """
        from worldsize.service.runs.follow import Follower

        return Follower(self, show, timeout, tell, seen).follow_to_end()

    def wait(self, timeout: float | None = None, check: bool = False) -> str:
        """Return the final state. TimeoutError after `timeout` seconds; with `check`, RunFailed unless it SUCCEEDED."""
        status = self.overall(self.follow(timeout=timeout))
        if not status.final:
            raise TimeoutError(f"{self.noun} {self.id} is still {status.state} after {timeout or 0:g} s")
        if check and status.state != RunState.SUCCEEDED:
            raise RunFailed(status.message or status.state, status.exit_code or 1, f"{self.noun} {self.id}")
        return status.state

    def cancel(self, now: bool = False) -> Status:
        """Ask for the end of all; does not wait for it. `now`: KILL without grace. Of what has ended: `end_remains`.
        The state before.

        Raises what the compute has against it; all goes on then. UsageError for what is another user's.
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
        self.refuse_foreign("cancel")
        from worldsize.service.runs.settle import request_end

        request_end(self.paths, lambda: self._cancel_on_compute(now))

    @abstractmethod
    def _cancel_on_compute(self, now: bool) -> None: ...


def size_text(nodes: int, ranks: int) -> str:
    """Nodes and ranks as `-w` takes them, "2x4"; in words where the nodes have not equally many."""
    return f"{nodes}x{ranks // nodes}" if ranks % nodes == 0 else f"{nodes} nodes, {ranks} ranks"
