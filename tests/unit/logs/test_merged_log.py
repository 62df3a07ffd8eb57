"""The merged log: prefixes, folding, filters, live and afterwards."""

from __future__ import annotations

import hashlib
import os
import subprocess
import sys
import time

import pytest

from worldsize.errors import UsageError
from worldsize.logs.merged_log import LogFollower, RawLogFollower
from worldsize.logs.selection import compile_grep
from worldsize.logs.text import BOUND
from worldsize.plan.plan import NodePlan, RankPlan
from worldsize.plan.run_paths import RunPaths


class World:
    """A run directory of `nodes` × `per_node` ranks whose logs the test writes; time stands still unless moved."""

    def __init__(self, root, nodes=2, per_node=2):
        self.paths = RunPaths(str(root))
        os.makedirs(self.paths.logs_dir)
        self.nodes = [
            NodePlan(node, tuple(RankPlan(node * per_node + i, i) for i in range(per_node))) for node in range(nodes)
        ]
        self.ranks = range(nodes * per_node)
        self.time = 1000.0
        self.printed = []

    def say(self, rank, text):
        with open(self.paths.rank_log(rank), "ab") as file:
            file.write(text if isinstance(text, bytes) else text.encode())

    def say_all(self, text):
        for rank in self.ranks:
            self.say(rank, text.replace("RANK", str(rank)))

    def follow(self, ranks=None, fold=None, grep=None, **options):
        return LogFollower(self.paths, self.nodes, ranks, fold, grep, self.printed.append, lambda: self.time, **options)

    def text(self, *args, **options):
        self.printed.clear()
        self.follow(*args, live=False, **options).finish()
        return "".join(self.printed)

    def new(self):
        text = "".join(self.printed)
        self.printed.clear()
        return text


@pytest.fixture
def world(tmp_path):
    return World(tmp_path / "run")


def test_after_the_run(world):
    world.say_all("start\nI am RANK\nend")
    world.say(2, " of it")
    assert world.text() == (
        "×4: start\n0:0: I am 0\n0:0: end\n0:1: I am 1\n0:1: end\n1:2: I am 2\n1:2: end of it\n1:3: I am 3\n1:3: end\n"
    )


def test_fold_off_is_rank_after_rank(world):
    world.say_all("start\nend\n")
    assert world.text(fold="off") == "".join(
        "%s: start\n%s: end\n" % (who, who) for who in ("0:0", "0:1", "1:2", "1:3")
    )


def test_fold_numbers(world):
    world.say_all("loss 0.RANK5\n")
    assert world.text(fold="numbers") == "×4: loss {0.05..0.35}\n"


def test_an_unknown_fold_is_refused(world):
    with pytest.raises(UsageError, match="same, numbers, off"):
        world.text(fold="some")


def test_three_and_more_ranks_share_a_line_two_do_not(tmp_path):
    world = World(tmp_path / "run", nodes=3)
    for rank in range(6):
        world.say(rank, "one\n" if rank in (0, 1, 2, 5) else "two\n")
    assert world.text() == "[0-2,5] ×4: one\n1:3: two\n2:4: two\n"


def test_some_ranks_only(world):
    world.say_all("I am RANK\n")
    assert world.text(ranks=[1, 3]) == "0:1: I am 1\n1:3: I am 3\n"
    assert world.text(ranks=[2]) == "1:2: I am 2\n"


def test_grep_is_applied_to_each_line(world):
    world.say_all("step 1\nloss is 3\nstep 2\nrank RANK loss\n")
    assert world.text(grep=compile_grep("^loss|3 loss$")) == "×4: loss is 3\n1:3: rank 3 loss\n"


def test_tail_is_per_rank(world):
    world.say_all("".join("line %d\n" % i for i in range(50)))
    world.say(0, "and more\n")
    assert world.text(tail=2) == "[1-3] ×3: line 48\n×4: line 49\n0:0: and more\n"


def test_logs_that_never_came(world):
    world.say(1, "alone\n")
    assert world.text() == "0:1: alone\n"


def test_a_rank_cannot_drive_the_terminal_nor_colour_the_others(world):
    world.say(0, b"\x1b[2J\x1b]0;x\x07\x1b[31mred\0\n")
    assert world.text() == "0:0: \x1b[31mred\x1b[0m\n"


def test_a_long_line_stays_one_line(world):
    long = "x" * (3 * BOUND)
    world.say_all(long + "\nnext\n")
    assert world.text() == "×4: %s\n×4: next\n" % long
    world.say(0, long)
    assert world.text(ranks=[0]) == "0:0: %s\n0:0: next\n0:0: %s\n" % (long, long)


def test_another_rank_may_speak_amid_a_long_line(world):
    follower = world.follow(fold="off")
    world.say(0, b"a" * (BOUND + 1))
    follower.poll()
    world.say(1, "b\n")
    follower.poll()
    world.say(0, b"c\n")
    follower.poll()
    assert world.new() == "0:0: %s\n0:1: b\n0:0: ac\n" % ("a" * BOUND)


def test_live_lines_wait_a_moment_for_the_others(world):
    follower = world.follow()
    world.say(0, "start\nmine\n")
    assert follower.poll()
    assert not follower.poll()
    assert world.new() == ""
    for rank in (1, 2, 3):
        world.say(rank, "start\n")
    follower.poll()
    assert world.new() == "×4: start\n"
    world.time += 0.21
    follower.poll()
    assert world.new() == "0:0: mine\n"


def test_finish_prints_to_the_last_byte(world):
    follower = world.follow()
    world.say_all("a\nb")
    follower.poll()
    world.say(2, "c")
    follower.finish()
    assert world.new() == "×4: a\n[0,1,3] ×3: b\n1:2: bc\n"


def test_afterwards_the_output_is_always_the_same(world):
    world.say_all("".join("step %d\n%s" % (i, "rank RANK\n" * (i % 7 == 0)) for i in range(5000)))
    world.say(1, "more\n" * 3000)
    live = world.follow()
    while live.poll():
        pass
    first = world.text()
    assert first == world.text()
    assert first.count("×4: ") == 5000


def test_afterwards_the_clock_does_not_matter(world):
    world.say(0, b"\r 10%" * (1 << 20) + b"\r100%\n")
    seconds = iter(range(1_000_000))
    out = []
    LogFollower(
        world.paths, world.nodes, [0], None, None, out.append, lambda: next(seconds) * 10.0, live=False
    ).finish()
    assert "".join(out) == "0:0: 100%\n"


def test_a_closed_pipe_is_told_to_the_caller(world):
    world.say_all("line\n" * 10)
    reading, writing = os.pipe()
    os.close(reading)
    follower = LogFollower(
        world.paths, world.nodes, None, None, None, lambda text: os.write(writing, text.encode()), time.monotonic
    )
    with pytest.raises(BrokenPipeError):
        follower.poll()
    os.close(writing)


def test_raw_is_byte_for_byte(world):
    world.say(0, b"\x1b[2J\r1%\r2%")
    world.say(1, b"\xff\0\nhalf")
    out = []
    raw = RawLogFollower(world.paths, [0], out.append)
    assert raw.poll()
    assert b"".join(out) == b"\x1b[2J\r1%\r2%"
    out.clear()
    raw = RawLogFollower(world.paths, [0, 1], out.append)
    raw.poll()
    world.say(1, b" of it\n")
    raw.finish()
    assert b"".join(out) == b"\xff\0\n\x1b[2J\r1%\r2%half of it\n"


WRITER = """
import hashlib, os, random, sys
rank, path = int(sys.argv[1]), sys.argv[2]
random.seed(rank)
out = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND)
data = b"".join(b"%d step %d %s\\n" % (rank, i, b"x" * random.randrange(60)) for i in range(40000))[: 1 << 20]
assert len(data) == 1 << 20
at = 0
while at < len(data):
    size = random.randrange(1, 60000)
    os.write(out, data[at : at + size])
    at += size
print(hashlib.sha256(data).hexdigest())
"""


@pytest.mark.timing
@pytest.mark.exhaustive(unless=["same"])
@pytest.mark.parametrize("fold", ["off", "same"])
def test_not_a_byte_is_lost_of_64_ranks_that_write_a_megabyte_each(tmp_path, fold):
    world = World(tmp_path / "run", nodes=16, per_node=4)
    heard = {rank: [] for rank in world.ranks}

    def hear(text):
        for line in text.split("\n")[:-1]:
            who, _, words = line.partition(": ")
            heard[int(who.partition(":")[2])].append(words)

    follower = LogFollower(world.paths, world.nodes, None, fold, None, hear, time.monotonic)
    waiting, hashes = list(world.ranks), {}
    running = {}
    while waiting or running:
        while waiting and len(running) < 8:
            rank = waiting.pop(0)
            command = [sys.executable, "-S", "-c", WRITER, str(rank), world.paths.rank_log(rank)]
            running[rank] = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
        if not follower.poll():
            time.sleep(0.01)
        for rank, process in list(running.items()):
            if process.poll() is not None:
                hashes[rank] = process.communicate()[0].strip()
                del running[rank]
    follower.finish()
    for rank in world.ranks:
        text = "\n".join(heard[rank])
        assert hashlib.sha256(text.encode()).hexdigest() == hashes[rank], rank


@pytest.mark.timing
def test_memory_stays_bounded_while_a_large_log_is_read(tmp_path):
    """16 MB logs, all different, through `finish`; one has 200 lines for each of the others'."""
    import tracemalloc

    world = World(tmp_path / "run")
    for rank in world.ranks:
        line = b"rank %d " % rank + b"z" * 1000 + b"\n" if rank else b"zzzz\n"
        world.say(rank, line * ((16 << 20) // len(line)))
    tracemalloc.start()
    try:
        LogFollower(world.paths, world.nodes, None, None, None, lambda text: None, time.monotonic, live=False).finish()
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert peak < 48 << 20


def test_no_rank_at_all_is_quiet(world):
    world.say_all("line\n")
    follower = world.follow(ranks=[])
    assert not follower.poll()
    follower.finish()
    assert world.new() == ""
