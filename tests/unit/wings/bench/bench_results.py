"""Results of benchmarks, made by hand."""

from __future__ import annotations

from typing import Any

import pytest

from worldsize.wings.bench.kinds import KINDS
from worldsize.wings.bench.result import BenchResult, Measurement
from worldsize.wings.bench.worlds import World

PRESENTATION = "worldsize.wings.bench.scaling.presentation"


def measured(world: str, rate: float | None, spread: float = 0.01, **more: Any) -> Measurement:
    """A world whose single rates lie within `spread` of `rate`; 0: one value alone."""
    nodes, ranks = map(int, world.split("x"))
    rates = () if rate is None or not spread else tuple(rate * (1 + spread * step / 4) for step in range(-4, 5))
    return Measurement(World(nodes, ranks), "4kqp", rate, rates, **{"held": 3600.0, **more})


def result_of(*measurements: Measurement, **more: Any) -> BenchResult:
    values = {
        "kind": "resnet50", "title": "ResNet-50", "unit": "images/s", "scaling": "weak", "compute": "local",
        "created": 1.7e9, "worldsize": "1.0", "settings": {"framework": "torch", "precision": "fp16"},
    }  # fmt: skip
    return BenchResult(**{**values, "measurements": measurements, **more})  # type: ignore[arg-type]


def use_presentation(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let each kind be told as a curve: what the kinds themselves do is tested with them."""
    for kind in ("resnet50", "job"):
        monkeypatch.setitem(KINDS, kind, PRESENTATION)
