"""The result of a benchmark: the value from which tables, pictures, pages and files are made."""

from __future__ import annotations

from collections.abc import Mapping

from worldsize.common.named_tuple import Any, NamedTuple
from worldsize.wings.bench.worlds import World

RESULT_VERSION = 1


class Measurement(NamedTuple):
    """The measurement of one run, or of one launcher.

    run             the run's id; "" if no run of worldsize was measured
    rate            what all ranks together do in a second, in the result's `unit`; None if nothing was measured
    rates           the single rates that `rate` is the median of, in the order of time
    seconds         the time of the work alone, from its beginning to its end; None if only a rate is known
    held            the seconds for which the run held its nodes, for GPU-hours
    gpus            the number of GPUs of all nodes together that the ranks used; 0: CPUs
    communication   the share of a step, 0 to 1, in which ranks waited for each other; None if it was not measured
    oversubscribed  a sentence if ranks share cores or GPUs, in which case no efficiency is computed
    failure         a sentence if the run failed
    details         additional values of the kind of benchmark, as JSON values
    code            the digest of the run's code; "" if it is not known
    """

    world: World
    run: str = ""
    rate: float | None = None
    rates: tuple[float, ...] = ()
    seconds: float | None = None
    held: float | None = None
    gpus: int = 0
    communication: float | None = None
    oversubscribed: str = ""
    failure: str = ""
    details: Mapping[str, Any] = {}
    code: str = ""


class BenchResult(NamedTuple):
    """All measurements of one `worldsize bench`, and the conditions under which they were made.

    kind       "resnet50", "job", "allreduce" or "launch"
    title      what was measured, with every setting that makes it a non-standard figure ("…: tiny settings")
    unit       the unit of `Measurement.rate`: "images/s"
    scaling    "weak": the work grows with the ranks; "strong": it stays the same; "": no curve over worlds
    created    Unix seconds
    settings   names and values, as they are shown
    hardware, software  the two tables, in the order in which they are shown
    """

    kind: str
    title: str
    unit: str
    scaling: str
    compute: str
    created: float
    worldsize: str
    settings: Mapping[str, str] = {}
    hardware: tuple[tuple[str, str], ...] = ()
    software: tuple[tuple[str, str], ...] = ()
    measurements: tuple[Measurement, ...] = ()
    version: int = RESULT_VERSION


class Table(NamedTuple):
    """A table of text. Numbers are already formatted; the first column names the row."""

    caption: str
    headers: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]
