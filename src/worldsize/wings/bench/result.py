"""What a benchmark has measured: the value that tables, pictures, pages and files are made of."""

from __future__ import annotations

from collections.abc import Mapping

from worldsize.common.named_tuple import Any, NamedTuple
from worldsize.wings.bench.worlds import World

RESULT_VERSION = 1


class Measurement(NamedTuple):
    """What one run, or one launcher, has shown.

    run        the run's id; "" where no run of worldsize was measured
    rate       what all ranks together do in a second, in the result's `unit`; None where nothing was measured
    rates      the single rates that `rate` is the median of, in the order of time
    seconds    of the work alone, from its beginning to its end; None where only a rate is known
    held       seconds for which the run held its nodes, for GPU-hours
    gpus       of all nodes together, as the ranks used them; 0: CPUs
    communication  the share of a step, 0 to 1, in which ranks waited for each other; None where it was not measured
    oversubscribed a sentence where ranks share cores or GPUs: then no efficiency is said
    failure    a sentence, where the run failed
    details    what the kind of benchmark has to say besides, of JSON's kinds
    code       the digest of the run's code; "" where it is not known
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
    """All that one `worldsize bench` has measured, and on what.

    kind      "resnet50", "job", "allreduce" or "launch"
    title     what was measured, with whatever makes it no standard figure ("ResNet-50, 32 × 32 images: tiny settings")
    unit      of `Measurement.rate`: "images/s"
    scaling   "weak": the work grows with the ranks; "strong": it stays; "": no curve over worlds
    created   Unix seconds
    settings  names and values, as they are shown
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
    """A table of text. Numbers are formatted already; the first column names the row."""

    caption: str
    headers: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]
