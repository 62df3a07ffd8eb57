"""What the terminals of the documentation show: files, and commands that are executed."""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple


class Scene(NamedTuple):
    """A terminal of the documentation.

    name      of the picture: docs/pictures/NAME.svg
    title     what it shows, for readers who do not see it
    files     by their names
    commands  executed one after the other; `shown` of them, from the last, are in the picture
    film      an animation; otherwise the picture is the last screen
    """

    name: str
    title: str
    files: Mapping[str, str]
    commands: tuple[str, ...]
    film: bool = False
    columns: int = 110
    lines: int = 40
    hidden: tuple[str, ...] = ()
    """Commands that are executed before, and not shown."""


_TRAIN = """import os
import time

rank, ranks = int(os.environ["RANK"]), int(os.environ["WORLD_SIZE"])
print("training on", ranks, "ranks")
for step in range(1, 4):
    time.sleep(0.4)
    if rank == 0:
        print("step %d  loss %.3f" % (step, 2 / step))
print("rank", rank, "has read", 250 + rank, "samples")
"""
_BROKEN = """import os
import time

samples = {"cat": 0, "dog": 1}
print("step 1")
time.sleep(1)
if os.environ["RANK"] == "3":
    print(samples["horse"])
time.sleep(60)
"""
_SHARDS = """import os
import time


def load(path):
    with open(path) as file:
        return file.read()


print("loading")
time.sleep(1)
if os.environ["RANK"] == "2":
    load("data/shard-2.bin")
time.sleep(60)
"""
_JOB = """code: .
command: python train.py
distribution: {type: pytorch, process_count_per_instance: 2}
resources: {instance_count: 2}
"""

SCENES = (
    Scene(
        "first-minute",
        "The first minute: a run on two nodes, a run that fails, and why",
        {"train.py": _TRAIN, "broken.py": _BROKEN},
        (
            "worldsize run -w 2x2 -- python train.py",
            "worldsize run -q -w 2x2 -- python broken.py",
            "worldsize list",
        ),
        film=True,
        lines=34,
    ),
    Scene(
        "failure",
        "A rank fails: one screen explains it",
        {"train.py": _SHARDS},
        ("worldsize run -q -w 2x2 -- python train.py",),
    ),
    Scene(
        "merged-log",
        "The output of four ranks on two nodes, merged: equal lines are folded",
        {"train.py": _TRAIN, "job.yml": _JOB},
        ("worldsize run job.yml",),
    ),
    Scene(
        "why",
        "worldsize why: the cause, the chain of what followed, and what to do",
        {"train.py": _SHARDS},
        ("worldsize why",),
        hidden=("worldsize run -q -w 2x2 -- python train.py",),
    ),
)
