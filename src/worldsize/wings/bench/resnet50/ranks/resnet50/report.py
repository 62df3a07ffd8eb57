"""The report file in which the first rank writes the measurement."""

from __future__ import annotations

import argparse
import json
import math
import os
import platform

from .arguments import stop
from .blocks import median

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

PATH = os.path.join("outputs", "bench.json")
VERSION = 1


def check_loss(loss: float) -> None:
    """Stop this rank if `loss` is not finite, because the training has diverged and the speed of its steps is then no
    valid measurement."""
    if not math.isfinite(loss):
        stop(f"the loss is {loss}: the training diverged, and its speed is not valid; try --precision fp32")


def write_report(
    arguments: argparse.Namespace, framework: str, ranks: int, seconds: list[float], sizes: list[int], **found: Any
) -> None:
    """Write the report of the ResNet-50 benchmark to PATH atomically, as JSON, and print the rate in images per second.
    `seconds` and `sizes` are the seconds and the steps of each block. `found` contains the values that only the
    framework knows."""
    settings = {name: value for name, value in vars(arguments).items() if name not in ("data", "share")}
    report = {"version": VERSION, "framework": framework, "ranks": ranks, **settings, **found}
    report.update(block_seconds=seconds, block_steps=sizes, data=data_name(arguments.data))
    report["software"] = {"Python": platform.python_version(), **found.get("software", {})}
    os.makedirs(os.path.dirname(PATH), exist_ok=True)
    with open(PATH + ".part", "w", encoding="utf-8") as file:
        json.dump(report, file)
    os.replace(PATH + ".part", PATH)
    rate = median([ranks * arguments.batch * size / block for size, block in zip(sizes, seconds)])
    print(f"ranks={ranks} images/s={rate:.4g}", flush=True)


def data_name(data: str) -> str:
    """Return the name of the kind of data for the report: "synthetic", "generated" or "images". The name of a directory
    is left out, because it is private to the user."""
    return data if data in ("synthetic", "generated") else "images"
