"""The benchmarks, by the word behind `worldsize bench`; a job file is one, too."""

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
    """What the module of a kind has.

    add_options  the options of this kind alone, into a group of their own of the verb's parser
    measure      run it, each world after the other, and return what was found. UsageError, WorldsizeError
    tables       the tables of a result; those of hardware and software are not among them
    sentences    what a person should know of the result, the recommendation first; each with its numbers
    charts       pictures of a result; `pictures` is that provider (Chart, Line): `service/providers.py`
    """

    def add_options(self, group: Any) -> None: ...

    def measure(self, options: argparse.Namespace, session: Session) -> BenchResult: ...

    def tables(self, result: BenchResult) -> tuple[Table, ...]: ...

    def sentences(self, result: BenchResult) -> tuple[str, ...]: ...

    def charts(self, result: BenchResult, pictures: Any) -> tuple[Any, ...]: ...
