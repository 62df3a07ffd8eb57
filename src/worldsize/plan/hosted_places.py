"""Paths that only a node knows, if a service runs the job. A plan names them by marks, which the node replaces with its
own paths. All functions are pure.

Standard library only: travels inside agent.pyz (Python >= 3.8).
"""

from __future__ import annotations

import json
from collections.abc import Mapping

RUNS_MARK = "@WORLDSIZE_RUNS@"
"""Mark for the directory of runs of a node."""


def place_mark(kind: str, name: str) -> str:
    """Return the mark for the path of an input (`kind` "inputs") or an output ("outputs") of the job."""
    return f"@WORLDSIZE_{kind}:{name}@"


def with_places(text: str, runs: str, places: Mapping[str, str]) -> str:
    """Return `text`, the JSON of a plan, with its marks replaced by the paths on this node: those of the directory of
    runs (`runs`), and those of inputs and outputs (`places`, by "inputs.NAME" and "outputs.NAME")."""
    marks = {RUNS_MARK: runs}
    for each, path in places.items():
        kind, _, name = each.partition(".")
        marks[place_mark(kind, name)] = path
    for mark, path in marks.items():
        text = text.replace(json.dumps(mark)[1:-1], json.dumps(path)[1:-1])
    return text
