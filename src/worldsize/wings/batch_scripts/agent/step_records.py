"""The records of a batch script's steps, one small file each, and the ranks and CPUs that each running step holds."""

from __future__ import annotations

import fcntl
import json
import os
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager

from worldsize.agent.posix import processes
from worldsize.common.atomic_files import read_file, read_object, write_json
from worldsize.common.json_values import PARSE_ERRORS, check_fields, tuple_of
from worldsize.common.named_tuple import NamedTuple
from worldsize.plan.run_paths import RunPaths
from worldsize.state.records import Failure

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any


class RunningStep(NamedTuple):
    """A running step: the pid and the start time of its srun, the ranks whose logs its tasks write, and its CPUs by
    node. Node numbers are strings, as keys are in JSON."""

    pid: int
    started: int | None
    ranks: Sequence[int]
    cpus: Mapping[str, int]


def step_file(paths: RunPaths, step: int) -> str:
    return os.path.join(paths.steps_dir, f"step-{step:04d}.json")


def read_steps(paths: RunPaths) -> list[dict[str, Any]]:
    """Return the record of every step of the run's batch script as a dict, in the order of the steps; an empty list if
    the directory of the records cannot be read."""
    try:
        names = sorted(name for name in os.listdir(paths.steps_dir) if name.startswith("step-"))
    except OSError:
        return []
    return [step for step in (read_object(os.path.join(paths.steps_dir, name)) for name in names) if step]


def last_failure(paths: RunPaths) -> Failure | None:
    """Return the failure of the batch script's step that ended last; None if that step did not fail. An earlier
    failure, after which the script continued, is not the reason for the script's end."""
    ended = [step for step in read_steps(paths) if isinstance(step.get("ended"), float)]
    if not ended:
        return None
    failure = max(ended, key=lambda step: float(step["ended"])).get("failure")
    try:
        return check_fields(tuple_of(Failure, failure)) if failure else None
    except PARSE_ERRORS:
        return None


class StepRegistry:
    """The steps that are running, and their records. Call its methods while holding `lock`."""

    def __init__(self, paths: RunPaths) -> None:
        self._paths = paths
        self._file = os.path.join(paths.steps_dir, "running.json")
        os.makedirs(paths.steps_dir, mode=0o700, exist_ok=True)

    @contextmanager
    def lock(self) -> Iterator[None]:
        lock = os.open(os.path.join(self._paths.steps_dir, "lock"), os.O_RDWR | os.O_CREAT, 0o600)
        try:
            fcntl.flock(lock, fcntl.LOCK_EX)
            yield
        finally:
            os.close(lock)

    def running_steps(self) -> list[RunningStep]:
        """Return the steps of the batch script whose srun process is alive; an empty list if the registry's file cannot
        be read."""
        try:
            rows = [RunningStep(*row) for row in json.loads(read_file(self._file))]
        except (OSError, ValueError):
            return []
        return [row for row in rows if processes.start_time(row.pid) == row.started]

    def add_running(self, ranks: Sequence[int], cpus: Mapping[int, int]) -> None:
        by_name = {str(node): count for node, count in cpus.items()}
        mine = RunningStep(os.getpid(), processes.start_time(os.getpid()), ranks, by_name)
        write_json(self._file, [*self.running_steps(), mine])

    def create_step(self) -> int:
        """Create the record file of the batch script's next step. Return the step's number."""
        number = len([name for name in os.listdir(self._paths.steps_dir) if name.startswith("step-")])
        write_json(step_file(self._paths, number), {"step": number})
        return number

    def claim_notice(self, name: str) -> bool:
        """Claim the notice `name`, so that only one step of the run prints it. Return True if no step of this run has
        claimed it before."""
        mark = os.path.join(self._paths.steps_dir, "said-" + "".join(c if c.isalnum() else "-" for c in name))
        try:
            os.close(os.open(mark, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600))
        except FileExistsError:
            return False
        return True
