"""Times of lines: which entry is a line's, where a time begins, several ranks in order, runs without times."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from worldsize.agent.supervision.log_times import LogTimesWriter
from worldsize.cli.runs.timed_logs import TimePrinter
from worldsize.logs.merged_log import LogFollower
from worldsize.logs.selection import compile_grep
from worldsize.logs.text import BOUND
from worldsize.logs.timed_log import TimedLogFollower
from worldsize.logs.times import LogTimes, ranks_without_times
from worldsize.plan.plan import node_major_layout
from worldsize.plan.run_paths import RunPaths

NODES = node_major_layout(1, 2)
START = 1795257118.0


class Run:
    """Two ranks that write, and an agent that looks when it is told to; `shown` is what a reader has printed."""

    def __init__(self, root: Path) -> None:
        self.paths = RunPaths(str(root))
        os.makedirs(self.paths.logs_dir)
        self.writer = LogTimesWriter(self.paths, (0, 1))
        self.shown: list[str] = []

    def say(self, rank: int, text: str) -> None:
        with open(self.paths.rank_log(rank), "a") as file:
            file.write(text)
        os.utime(self.paths.rank_log(rank), (START + 99, START + 99))

    def look(self, seconds: float) -> None:
        self.writer.write(START + seconds)

    def follower(self, **options: object) -> TimedLogFollower:
        show = TimePrinter(NODES, 2, self.shown.append).show
        return TimedLogFollower(self.paths, (0, 1), options.pop("grep", None), show, lambda: 0.0, **options)  # type: ignore[arg-type]

    def lines(self, **options: object) -> list[str]:
        """The lines of all, with the seconds alone in place of the time."""
        self.shown.clear()
        self.follower(**options).finish()
        return self.seen()

    def seen(self) -> list[str]:
        text = "".join(self.shown).replace("2026-11-21T10:", "").replace(".000Z", "")
        self.shown.clear()
        return text.splitlines()


@pytest.fixture
def run(tmp_path: Path) -> Run:
    return Run(tmp_path / "run")


def test_a_line_has_the_time_of_the_first_look_after_it(run: Run) -> None:
    run.say(0, "one\ntwo, be")
    run.look(1)
    run.say(0, "gun\nthree\n")
    run.look(2)
    run.look(3)
    run.say(0, "last, and not looked at\n")
    assert run.lines() == ["0:0: 31:59 one", "0:0: 32:00 two, begun", "0:0: 32:00 three",
                           "0:0: 33:37 last, and not looked at"]  # fmt: skip
    with open(run.paths.rank_times(0)) as file:
        assert file.read() == "11 1795257119.000\n21 1795257120.000\n", "nothing for a log that stands still"
    with open(run.paths.rank_log(0)) as file:
        assert file.read() == "one\ntwo, begun\nthree\nlast, and not looked at\n"


def test_ranks_are_in_the_order_of_their_times(run: Run) -> None:
    for second in range(3):
        run.say(second % 2, "at %d\n" % second)
        run.look(second)
    assert run.lines() == ["0:0: 31:58 at 0", "0:1: 31:59 at 1", "0:0: 32:00 at 2"]
    assert run.lines(grep=compile_grep("1")) == ["0:1: 31:59 at 1"]
    assert run.lines(tail=1) == ["0:1: 31:59 at 1", "0:0: 32:00 at 2"]


def test_a_last_line_without_its_end_and_one_that_comes_in_pieces(run: Run) -> None:
    run.say(0, "x" * (2 * BOUND + 10))
    run.look(1)
    run.say(0, "y\nend")
    run.look(2)
    assert run.lines() == ["0:0: 31:59 %sy" % ("x" * (2 * BOUND + 10)), "0:0: 32:00 end"]


@pytest.mark.parametrize(
    ("since", "first"), [(-5, "one"), (1, "one"), (1.5, "two"), (2.5, "three"), (50, "three"), (100, None)]
)
def test_since_begins_where_a_line_begins(run: Run, since: float, first: str | None) -> None:
    run.say(0, "one\ntw")
    run.look(1)
    run.say(0, "o\n")
    run.look(2)
    run.say(0, "three\n")
    words = ["one", "two", "three"]
    rest = [] if first is None else words[words.index(first) :]
    assert [line.split()[-1] for line in run.lines(since=START + since)] == rest
    shown: list[str] = []
    LogFollower(
        run.paths, NODES, (0, 1), None, None, shown.append, lambda: 0.0, since=START + since, live=False
    ).finish()
    assert "".join(shown) == "".join("0:0: %s\n" % word for word in rest)


def test_following_shows_what_is_new(run: Run) -> None:
    follower = run.follower()
    assert not follower.poll()
    run.say(0, "one\n")
    assert follower.poll() and run.seen() == ["0:0: 33:37 one"], "no look yet: when the log was changed last"
    run.say(0, "two\n")
    run.look(2)
    assert follower.poll() and run.seen() == ["0:0: 32:00 two"]
    assert not follower.poll()
    follower.finish()
    assert run.seen() == []


def test_a_log_that_was_emptied_and_damaged_times(run: Run) -> None:
    run.say(0, "a long line of the first content\n")
    run.look(1)
    with open(run.paths.rank_log(0), "w") as file:
        file.write("new\n")
    run.look(2)
    with open(run.paths.rank_times(0), "ab") as times:
        times.write(b"\xff\n12\n12 now\n-3 1.0\n99 1795257121.0")
    assert run.lines() == ["0:0: 32:00 new"]
    assert LogTimes(run.paths.rank_log(0), run.paths.rank_times(0)).entry_after(3) == (4, START + 2)


def test_runs_without_times(run: Run) -> None:
    assert ranks_without_times(run.paths, (0, 1)) == []
    run.say(1, "of an older worldsize\n")
    assert ranks_without_times(run.paths, (0, 1)) == [1]
    run.look(1)
    assert ranks_without_times(run.paths, (0, 1)) == []


def test_a_removed_run_has_no_directory_made_for_it(tmp_path: Path) -> None:
    writer = LogTimesWriter(RunPaths(str(tmp_path / "gone")), (0,))
    writer.write(START)
    assert os.listdir(tmp_path) == []
