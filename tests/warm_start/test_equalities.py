"""A rank that was forked is what a plain start makes it: each row of the table in
docs/explanation/warm-start.md, cold against warm, in real runs."""

from __future__ import annotations

import pytest

from warm_start.starts import Found, Starts, differences, way

WARM = "[torch, torch._dynamo]"
ROWS = (
    "sys.argv", "sys.path", "sys.flags", "sys.executable", "sys.orig_argv", "sys.warnoptions", "sys.hooks",
    "garbage collector", "__main__",
    "os.environ", "getenv", "/proc/PID/environ", "subprocess",
    "working directory", "umask", "stdin", "descriptors", "streams", "signals",
    "signals of the kernel", "process group", "/proc/PID/cmdline", "/proc/PID/comm", "parent", "threads of the process",
    "limits", "core dumps", "CPUs", "NUMA", "credentials", "cgroup", "faulthandler", "encodings", "warnings",
    "multiprocessing", "loader workers", "thread counts", "seeded numbers",
)  # fmt: skip


@pytest.fixture(scope="module")
def both(starts: Starts) -> tuple[Found, Found]:
    command = "python -W ignore::UserWarning -X faulthandler rank_probe.py OUT --rank=$RANK"
    return starts("off", command), starts(WARM, command)


def test_one_run_was_cold_and_the_other_one_warm(both: tuple[Found, Found]) -> None:
    assert [way(each) for each in both] == [None, "warm"]


def test_the_table_has_a_row_for_all_that_is_looked_at(both: tuple[Found, Found]) -> None:
    assert set(both[0].ranks[0]["values"]) == set(ROWS)


@pytest.mark.parametrize("row", ROWS)
def test_a_row(both: tuple[Found, Found], row: str) -> None:
    for cold, warm in zip(both[0].ranks, both[1].ranks, strict=True):
        assert differences(cold["values"][row], warm["values"][row]) == {}


def test_what_a_fresh_process_draws_differs_between_ranks(both: tuple[Found, Found]) -> None:
    for found in both:
        for name in found.ranks[0]["fresh"]:
            assert found.ranks[0]["fresh"][name] != found.ranks[1]["fresh"][name], name


def test_the_order_of_hashes_is_the_one_difference(both: tuple[Found, Found]) -> None:
    cold, warm = ([rank["order"] for rank in found.ranks] for found in both)
    assert cold[0] != cold[1] and warm[0] == warm[1]


def test_finalizers_and_exit_functions(both: tuple[Found, Found]) -> None:
    cold, warm = (found.logs for found in both)
    assert warm == cold and "at exit" in warm[0] and "finalized" in warm[0]


WAITS = """
import os, signal
if os.environ["RANK"] == "1":
    signal.pause()
"""
FAILS = """
def fail():
    raise ValueError("by intent")
fail()
"""


@pytest.mark.parametrize(
    ("end", "code"),
    [
        (FAILS, 1),
        ("import sys\nsys.exit(3)", 3),
        ("os.kill(os.getpid(), 9)", 137),
        ("os.abort()", 134),
        ("signal.raise_signal(signal.SIGINT)", 130),
        ("os.execvp('sh', ['sh', '-c', 'exit 5'])", 5),
    ],
    ids=["exception", "code", "killed", "aborted", "interrupted", "another program"],
)
def test_an_end(starts: Starts, end: str, code: int) -> None:
    cold, warm = (starts(preload, "python train.py", code, train=WAITS + end) for preload in ("off", WARM))
    assert (way(cold), way(warm)) == (None, "warm")
    assert warm.codes == cold.codes and code in warm.codes
    assert warm.logs == cold.logs
    own = [
        [
            {name: value for name, value in each.items() if name not in ("time", "pid", "parent")}
            for each in found.errors
        ]
        for found in (cold, warm)
    ]
    assert own[0] == own[1]
