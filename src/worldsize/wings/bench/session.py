"""One `worldsize bench`: where it runs, and the runs of its worlds, one after the other."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from worldsize.common.named_tuple import NamedTuple
from worldsize.jobspec.config.config import Config
from worldsize.jobspec.job import Job
from worldsize.service.runs.run import Run
from worldsize.state.records import Status
from worldsize.wings.bench.result import BenchResult, Measurement
from worldsize.wings.bench.worlds import World


class Session(NamedTuple):
    """directory: where all that is measured is written, as soon as it is known."""

    config: Config
    compute: str | None
    environ: Mapping[str, str]
    cwd: str
    directory: str
    worlds: tuple[World, ...]

    def measure_worlds(
        self,
        empty: BenchResult,
        make_job: Callable[[World], Job],
        read: Callable[[Run, Status, World], Measurement],
    ) -> BenchResult:
        """Submit the job of each world once the run before it has ended, and have `read` find in a run that has
        succeeded what was measured; `empty`, with measurements, facts of the nodes and failures. What an earlier
        session of the same directory has measured with the same settings is kept, and not measured again."""
        raise NotImplementedError
