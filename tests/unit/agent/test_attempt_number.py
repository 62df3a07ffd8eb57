"""Which attempt an agent begins where nobody counts for it, and which one an observation is of."""

from __future__ import annotations

import os
import time
from pathlib import Path

import pytest

from worldsize.agent.outcome.node_record import write_unstarted_record
from worldsize.agent.startup.attempt_number import choose_attempt, require_own_attempt
from worldsize.errors import RunFailed, UsageError
from worldsize.plan.plan import Plan, node_major_layout
from worldsize.plan.run_paths import RunPaths
from worldsize.service.runs.status import observed_attempt
from worldsize.state.records import Observation


@pytest.fixture
def paths(tmp_path: Path) -> RunPaths:
    paths = RunPaths(str(tmp_path / "20260101-000000-000abc"))
    os.makedirs(paths.root)
    made(paths)
    return paths


def made(paths: RunPaths) -> RunPaths:
    for directory in paths.directories():
        os.makedirs(directory, exist_ok=True)
    return paths


def started(paths: RunPaths, node_rank: int) -> None:
    open(made(paths).events(node_rank), "w").close()


def attempt(paths: RunPaths, node_rank: int, least: str = "") -> int:
    plan = Plan("r", "n", "lab", 1.0, 0, node_major_layout(3, 1), ("true",), {})
    plan, begun = choose_attempt(plan, paths, node_rank, least)
    assert plan.attempt == begun.attempt
    return begun.attempt


def test_the_first_is_0_for_every_node(paths: RunPaths) -> None:
    assert [attempt(paths, node) for node in range(3)] == [0, 0, 0]
    started(paths, 0)
    assert [attempt(paths, node) for node in (1, 2)] == [0, 0]


def test_a_node_that_has_begun_one_begins_the_next(paths: RunPaths) -> None:
    for node in (0, 1):
        started(paths, node)
    assert attempt(paths, 0) == 1
    started(RunPaths(paths.root, 1), 0)
    assert [attempt(paths, node) for node in (1, 2)] == [1, 1], "the third had never begun the first"
    started(RunPaths(paths.root, 1), 1)
    assert attempt(paths, 0) == 2


def test_setup_that_failed_counts_as_begun(paths: RunPaths) -> None:
    plan = Plan("r", "n", "lab", 1.0, 0, node_major_layout(2, 1), ("true",), {})
    write_unstarted_record(plan, paths, 1, "setup failed")
    assert (attempt(paths, 0), attempt(paths, 1)) == (0, 1)


def test_who_comes_long_after_the_head_has_ended_begins_the_next(paths: RunPaths) -> None:
    plan = Plan("r", "n", "lab", 1.0, 0, node_major_layout(2, 1), ("true",), {})
    write_unstarted_record(plan, paths, 0, "no meeting")
    assert attempt(paths, 1) == 0
    long_ago = time.time() - 1000
    os.utime(paths.exit_record(0), (long_ago, long_ago))
    assert attempt(paths, 1) == 1


def test_a_number_is_the_least(paths: RunPaths) -> None:
    assert attempt(paths, 0, "2") == 2
    assert attempt(paths, 0, "x") == 0
    started(RunPaths(paths.root, 2), 0)
    assert attempt(paths, 0, "2") == 3


@pytest.mark.parametrize("name", ["result.json", "cancel.json"])
def test_a_run_that_has_ended_stays_so(paths: RunPaths, name: str) -> None:
    open(os.path.join(paths.root, name), "w").close()
    with pytest.raises(RunFailed, match="has ended") as caught:
        attempt(paths, 0)
    assert caught.value.exit_code == 1


def test_a_run_that_succeeded_unseen_ends_so_again(paths: RunPaths) -> None:
    """Its native job was started again before anybody heard of its end."""
    plan = Plan("r", "n", "lab", 1.0, 0, node_major_layout(2, 1), ("true",), {})
    write_unstarted_record(plan, paths, 0, "", None, 0)
    with pytest.raises(RunFailed) as caught:
        attempt(paths, 0)
    assert caught.value.exit_code == 0


COUNTED = Observation("running", restarts=2)
AGAIN = Observation("running", restarts=1, counted=False)


def test_restarts_are_attempts_where_they_are_counted(paths: RunPaths) -> None:
    assert observed_attempt(paths, COUNTED).attempt == 2
    assert observed_attempt(RunPaths(paths.root, 3), COUNTED).attempt == 3
    assert observed_attempt(paths, Observation("running")) is paths


def test_elsewhere_an_attempt_that_has_begun_is_over_when_the_job_waits_or_started_again(paths: RunPaths) -> None:
    now = time.time()
    assert observed_attempt(paths, AGAIN._replace(started=now)).attempt == 0, "no agent had begun the first"
    started(paths, 0)
    assert observed_attempt(paths, Observation("queued", counted=False)).attempt == 1
    assert observed_attempt(paths, AGAIN._replace(started=now + 60)).attempt == 1
    assert observed_attempt(paths, AGAIN._replace(started=now - 1)).attempt == 0, "it is the one that runs"
    first = Observation("running", counted=False, started=now + 60)
    assert observed_attempt(paths, first).attempt == 0, "it was never put back, whatever the clocks say"


@pytest.mark.parametrize(
    ("name", "mode"), [("attempt-0", 0o770), ("attempt-0/events", 0o777), ("attempt-0/exit", 0o702)]
)
def test_what_others_may_have_prepared_is_not_begun(paths: RunPaths, name: str, mode: int) -> None:
    """Found by review: the group wrote where the head is said to be, and a wrapper that starts the ranks."""
    os.chmod(paths.root, 0o750)
    require_own_attempt(paths)
    os.chmod(os.path.join(paths.root, name), mode)
    with pytest.raises(UsageError, match="other users may write to it"):
        require_own_attempt(paths)
    os.chmod(paths.root, 0o777)  # a mount that shows everything so
    require_own_attempt(paths)


def test_nor_through_a_link(paths: RunPaths) -> None:
    os.rename(paths.events_dir, paths.root + "/elsewhere")
    os.symlink(paths.root + "/elsewhere", paths.events_dir)
    with pytest.raises(UsageError, match="another user"):
        require_own_attempt(paths)


@pytest.mark.skipif(os.geteuid() != 0, reason="only root gives files away")
def test_nor_in_somebody_elses_directory(paths: RunPaths) -> None:
    os.chown(paths.attempt_dir, 12345, -1)
    with pytest.raises(UsageError, match="another user"):
        require_own_attempt(paths)
