"""A store full of finished runs, each with the plan and the result that a real one of its kind leaves behind."""

from __future__ import annotations

import os
import random

from worldsize.common.atomic_files import write_json, write_text
from worldsize.plan.plan import Plan, node_major_layout
from worldsize.plan.run_paths import RunPaths
from worldsize.state.records import Failure, Reason, RunState, Status
from worldsize.state.result import result
from worldsize.store.runs import new_run_id, runs_link_dir

_EVERY = 613.0
_ENDS = (
    (RunState.SUCCEEDED, None, 0),
    (RunState.SUCCEEDED, None, 0),
    (RunState.FAILED, Reason.EXIT_CODE, 1),
    (RunState.CANCELLED, Reason.CANCELLED_BY_USER, 130),
)


def fill(home: str, runs: int, newest: float) -> None:
    """Makes `runs` run directories in an empty store, the newest at `newest` (Unix seconds)."""
    os.makedirs(runs_link_dir(home), 0o700)
    draw = random.Random(1)
    for number in range(runs):
        created = newest - (runs - number) * _EVERY
        _write(RunPaths(os.path.join(runs_link_dir(home), new_run_id(created, draw.randbytes))), created, draw)


def _write(paths: RunPaths, created: float, draw: random.Random) -> None:
    state, reason, code = draw.choice(_ENDS)
    failure = (
        Failure(Reason.EXIT_CODE, "rank 1 on node 0 ended with code 1", 0, 1, code, created + 60) if code == 1 else None
    )
    plan = Plan(
        run_id=paths.run_id,
        name="train-%d" % draw.randrange(100),
        compute="local",
        created=created,
        attempt=0,
        nodes=node_major_layout(draw.choice((1, 2, 4)), draw.choice((1, 2, 8))),
        argv=("python", "train.py", "--lr", "0.1"),
        environment={"WORLDSIZE_INPUT_LR": "0.1"},
    )
    status = Status(state, reason, code, "", failure, created + 1, created + 61)
    os.mkdir(paths.root, 0o700)
    write_text(paths.plan, plan.to_json())
    write_json(paths.result, result(plan, status))
