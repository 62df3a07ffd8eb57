"""The kinds of benchmarks, by the word after `worldsize bench`; `job` is the kind of job files."""

from __future__ import annotations

import argparse

from worldsize.common.named_tuple import Any, Protocol
from worldsize.wings.bench.result import BenchResult, Table

TYPE_CHECKING = False
if TYPE_CHECKING:
    from worldsize.wings.bench.session import Session

KINDS = {
    "resnet50": "worldsize.wings.bench.resnet50.benchmark",
    "job": "worldsize.wings.bench.training.benchmark",
    "allreduce": "worldsize.wings.bench.allreduce.benchmark",
    "launch": "worldsize.wings.bench.launch.benchmark",
}


class Benchmark(Protocol):
    """The interface of the module of a kind.

    add_options  add the options of this kind alone to a group of their own in the verb's parser
    measure      run the benchmark in each world in turn, and return the result. Raise UsageError, WorldsizeError.
    tables       return the tables of a result, without those of hardware and software
    sentences    return what a user should know of the result, with numbers, the recommendation first
    charts       return the charts of a result; `pictures` is that provider (Chart, Line): `service/providers.py`
    """

    def add_options(self, group: Any) -> None: ...

    def measure(self, options: argparse.Namespace, session: Session) -> BenchResult: ...

    def tables(self, result: BenchResult) -> tuple[Table, ...]: ...

    def sentences(self, result: BenchResult) -> tuple[str, ...]: ...

    def charts(self, result: BenchResult, pictures: Any) -> tuple[Any, ...]: ...
