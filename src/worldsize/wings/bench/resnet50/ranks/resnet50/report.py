"""The file in which the first rank says what was measured."""

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
    """End this rank where the training has gone astray: then its steps are no measure."""
    if not math.isfinite(loss):
        stop(f"the loss is {loss}: the training diverged, and its speed is not valid; try --precision fp32")


def write_report(
    arguments: argparse.Namespace, framework: str, ranks: int, seconds: list[float], sizes: list[int], **found: Any
) -> None:
    """Write PATH, at once and whole, and print the rate. `found`: what only the framework knows."""
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
    """What of the data is said: a directory's name is the user's own."""
    return data if data in ("synthetic", "generated") else "images"
