"""Run directories with values and samples as ranks and agents write them."""

from __future__ import annotations

import json
import os
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from worldsize.plan.plan import Plan, node_major_layout
from worldsize.plan.run_paths import RunPaths

BEGUN = 1764224000.0


def recorded_run(directory: Path, nodes: int = 1, ranks: int = 1, name: str = "20261127-060000-aaaaaa") -> RunPaths:
    """A run below `directory` that has a plan, and no more."""
    paths = RunPaths(str(directory / name))
    os.makedirs(paths.root)
    plan = Plan(name, "t", "local", BEGUN, 0, node_major_layout(nodes, ranks), ("true",), environment={})
    Path(paths.plan).write_text(plan.to_json())
    return paths


def logged_line(step: int | None, values: Mapping[str, Any], time: float | None = None) -> str:
    at = BEGUN + (step or 0) if time is None else time
    return json.dumps({"time": at, "step": step, "values": values}, separators=(",", ":")) + "\n"


def log_values(paths: RunPaths, rank: int, calls: Iterable[tuple[int | None, Mapping[str, Any]]]) -> None:
    """Append a line for each call of `worldsize.log`, a second after the other by its step."""
    write_lines(paths.logged_values(rank), *(logged_line(step, values) for step, values in calls))


def write_lines(path: str, *lines: str | bytes) -> None:
    """Append the lines as they are; the directory is made."""
    os.makedirs(os.path.dirname(path), exist_ok=True)
    with open(path, "ab") as file:
        file.writelines(line.encode() if isinstance(line, str) else line for line in lines)
