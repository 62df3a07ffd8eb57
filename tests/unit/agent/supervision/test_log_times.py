"""When an agent looks how far the ranks' logs have grown."""

from __future__ import annotations

import os
import time
from pathlib import Path

from driver import wait_for

from worldsize.agent.supervision.log_times import EVERY, LogTimes
from worldsize.plan.plan import Plan, node_major_layout
from worldsize.plan.run_paths import RunPaths

PLAN = Plan("r", "t", "local", 1.0, 0, node_major_layout(2, 2), ("true",), {})


def paths_of(tmp_path: Path) -> RunPaths:
    paths = RunPaths(str(tmp_path))
    os.makedirs(paths.logs_dir)
    for rank in range(4):
        with open(paths.rank_log(rank), "w") as file:
            file.write("x" * (rank + 1))
    return paths


def sizes(paths: RunPaths, rank: int) -> list[int]:
    if not os.path.exists(paths.rank_times(rank)):
        return []
    with open(paths.rank_times(rank)) as file:
        return [int(line.split()[0]) for line in file]


def test_a_short_run_has_one_look_at_its_end(tmp_path: Path) -> None:
    paths, times, begun = paths_of(tmp_path), LogTimes(), time.monotonic()
    assert times.part.deadline() is None
    times.plan_first(PLAN, paths, PLAN.nodes[1])
    times.part.tick(begun + EVERY / 2)
    assert sizes(paths, 2) == []
    times.finish()
    assert [sizes(paths, rank) for rank in range(4)] == [[], [], [3], [4]]
    assert times.part.deadline() is None


def test_a_longer_one_has_looks_and_one_at_its_end(tmp_path: Path) -> None:
    paths, times = paths_of(tmp_path), LogTimes()
    times.plan_first(PLAN, paths, PLAN.nodes[0])
    times.part.tick(time.monotonic() + 2 * EVERY)
    wait_for(lambda: sizes(paths, 1) == [2])
    with open(paths.rank_log(1), "a") as file:
        file.write("more")
    times.finish()
    assert sizes(paths, 0) == [1] and sizes(paths, 1) == [2, 6]


def test_nothing_is_written_where_no_rank_was_started(tmp_path: Path) -> None:
    paths, times = paths_of(tmp_path), LogTimes()
    times.finish()
    assert sizes(paths, 0) == []
