"""Places that only a node knows, where a service runs the job: a plan names them by marks, and the node puts its own
paths there. Pure.

Standard library only: travels inside agent.pyz (Python >= 3.8).
"""

from __future__ import annotations

import json
from collections.abc import Mapping

RUNS_MARK = "@WORLDSIZE_RUNS@"
"""The directory of runs of a node."""


def place_mark(kind: str, name: str) -> str:
    """Return the place of an input (`kind` "inputs") or an output ("outputs") of the job."""
    return f"@WORLDSIZE_{kind}:{name}@"


def with_places(text: str, runs: str, places: Mapping[str, str]) -> str:
    """Return a plan's JSON with the node's directory of runs, and the places of `inputs.NAME` and `outputs.NAME`, for
    their marks."""
    marks = {RUNS_MARK: runs}
    for each, path in places.items():
        kind, _, name = each.partition(".")
        marks[place_mark(kind, name)] = path
    for mark, path in marks.items():
        text = text.replace(json.dumps(mark)[1:-1], json.dumps(path)[1:-1])
    return text
