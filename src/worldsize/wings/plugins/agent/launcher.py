"""A wrapper for a launcher of another package, on a node or in a preview. If the package's code raises, or returns a
wrong value, the error is one sentence that names the launcher. An error never turns a failure into a success.

Standard library only: travels inside agent.pyz (Python >= 3.8).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence

from worldsize.agent.launchers.base import Launcher
from worldsize.agent.launchers.launcher_failures import launcher_failure
from worldsize.agent.launchers.rank_process import NodeEnd, NodeLaunch, Process
from worldsize.agent.outcome.rank_warnings import EXCEPTION
from worldsize.common.named_tuple import cast
from worldsize.errors import PlanError, error_text
from worldsize.plan.external_launchers import launcher_error
from worldsize.plan.plan import Plan
from worldsize.plan.run_paths import RunPaths
from worldsize.state.records import Failure, RunWarning

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any, List


class ExternalLauncher:
    """A wrapper that calls the launcher of another package and checks its return values. In addition to the errors of
    `Launcher`, `is_available`, `prepare` and `processes` raise PlanError."""

    def __init__(self, name: str, launcher: Launcher) -> None:
        self._name = name
        self.launcher = launcher

    def is_available(self, plan: Plan, environ: Mapping[str, str]) -> bool:
        return bool(self._call("is_available", (plan, environ), lambda made: True))

    def prepare(self, launch: NodeLaunch) -> Mapping[str, str]:
        return cast("Mapping[str, str]", self._call("prepare", (launch,), _is_environment, expected=(OSError,)))

    def processes(self, launch: NodeLaunch) -> List[Process]:
        """Return the processes that the other package's launcher starts on the node, of which exactly one has each rank
        of the node. Raise PlanError otherwise."""
        wanted = [rank.rank for rank in launch.node.ranks]
        return cast("List[Process]", self._call("processes", (launch,), lambda made: sorted(_ranks_of(made)) == wanted))

    def failures(self, end: NodeEnd) -> List[Failure]:
        """Return the failures that the other package's launcher reports after a process has ended. If the launcher's
        code fails, return the failure of the process itself."""
        try:
            return cast("List[Failure]", self._call("failures", (end,), _are_failures))
        except PlanError as error:
            failure = launcher_failure(end)
            return [failure._replace(message=f"{failure.message} ({error.what})")]

    def warnings(self, plan: Plan, paths: RunPaths, ranks: Sequence[int]) -> List[RunWarning]:
        try:
            return cast("List[RunWarning]", self._call("warnings", (plan, paths, ranks), _are_warnings))
        except PlanError as error:
            return [RunWarning(EXCEPTION, error.what)]

    def _call(self, method: str, given: Any, is_right: Callable[[Any], bool], expected: Any = (PlanError,)) -> Any:
        try:
            made = getattr(self.launcher, method)(*given)
            made = list(made) if isinstance(made, Iterator) else made
            right = is_right(made)
        except (KeyboardInterrupt, *expected):
            raise
        except BaseException as error:
            raise launcher_error(self._name, f"failed in {method}: {error_text(error)}") from error
        if not right:
            raise launcher_error(self._name, f"failed: {method} returned {_text(made)}, which its protocol forbids")
        return made


def _is_environment(made: Any) -> bool:
    return isinstance(made, Mapping) and all(isinstance(name, str) for pair in made.items() for name in pair)


def _ranks_of(made: Any) -> List[int]:
    return [rank for process in made if isinstance(process, Process) for rank in process.ranks]


def _are_failures(made: Any) -> bool:
    return bool(made) and all(isinstance(each, Failure) for each in made)


def _are_warnings(made: Any) -> bool:
    return isinstance(made, (list, tuple)) and all(isinstance(each, RunWarning) for each in made)


def _text(made: Any) -> str:
    return " ".join(f"{made!r:.80}".split())
