"""Reports of an all-reduce, made by hand."""

from __future__ import annotations

import os
import sys
from typing import Any

from worldsize.wings.bench.allreduce import benchmark
from worldsize.wings.bench.result import BenchResult, Measurement
from worldsize.wings.bench.worlds import World

RANKS = os.path.join(os.path.dirname(benchmark.__file__), "ranks")
if RANKS not in sys.path:
    sys.path.append(RANKS)
MIB = 1 << 20


def row(size: Any = MIB, seconds: Any = 1e-3, **more: Any) -> dict[str, Any]:
    return {"size": size, "count": 2 if size == 8 else 100, "seconds": seconds, "wrong": 0, "iterations": 20, **more}


def report(*rows: dict[str, Any], **more: Any) -> dict[str, Any]:
    values = {
        "ranks": 2, "backend": "gloo", "device": "CPU", "dtype": "float32", "gpus": 0, "threads": 1,
        "software": {"framework": "torch 2"},
    }  # fmt: skip
    return {**values, "rows": list(rows) or [row()], **more}


def result_of(world: World, details: dict[str, Any], failure: str = "", **hardware: str) -> BenchResult:
    measurement = Measurement(world, "4kqp", 1.0, failure=failure, details=details)
    rows = tuple(hardware.items())
    return BenchResult(
        "allreduce", "all-reduce of float32", "GB/s", "", "local", 1.7e9, "1.0", {}, rows, (), (measurement,)
    )
