"""Whether a silent run works, and which ranks keep the others waiting, by two samples of stacks."""

from __future__ import annotations

import pytest
from recorded_stacks import rank_of_frames, thread_of, work_of

from worldsize.wings.hangs.judgement.stacks.rank_stacks import Frame, RankStacks
from worldsize.wings.hangs.judgement.stacks.stack_witness import StackJudgement, judge_stacks

LIMIT, GAP = 60.0, 2.0
TRAIN = "/job/train.py"
PACKAGES = "/env/lib/python3.12/site-packages"
C10D = PACKAGES + "/torch/distributed/distributed_c10d.py"
LOADER_FILE = PACKAGES + "/torch/utils/data/dataloader.py"

MODULE = ("<module>", TRAIN, 90)
LOCKED = (("acquire", "/usr/lib/python3.12/threading.py", 10), ("save", TRAIN, 7), MODULE)
LOADS = (("_try_get_data", LOADER_FILE, 1275), ("<module>", TRAIN, 20))
OPENS = (("open", "/usr/lib/python3.12/pathlib.py", 1013), ("fetch", TRAIN, 16), MODULE)
LOOPS = (("count", TRAIN, 33), MODULE)
MEETS = (("init_process_group", C10D, 1750), ("<module>", TRAIN, 3))


def calls(name: str, line: int, text: str = "") -> tuple[tuple[object, ...], ...]:
    return (name, C10D, 3252), ("main", TRAIN, line, text or "dist.%s(x)" % name), MODULE


IN_ALL_REDUCE, IN_BARRIER, IN_BROADCAST = calls("all_reduce", 41), calls("barrier", 43), calls("broadcast", 42)


def look(*ranks: RankStacks, after: dict[int, RankStacks] | None = None, at: float = 0.0, **fields) -> StackJudgement:
    """Both samples alike, but for the processes of `after`, by pid."""
    before = [each._replace(time=1000.0 + at) for each in ranks]
    later = [(after or {}).get(each.pid, each)._replace(time=1000.0 + at + GAP) for each in ranks]
    size = fields.pop("world_size", len({each.rank for each in ranks}))
    return judge_stacks(before, later, size, LIMIT, **fields)


def ranks_at(*frames: tuple, **fields: object) -> list[RankStacks]:
    return [rank_of_frames(rank, *each, **fields) for rank, each in enumerate(frames)]


def named(judgement: StackJudgement) -> list[tuple[str, tuple[int, ...]]]:
    assert not judgement.alive and judgement.findings
    return [(each.kind, each.ranks) for each in judgement.findings if each.kind]


def test_a_rank_that_waits_for_a_lock_while_the_others_wait_for_it() -> None:
    judgement = look(*ranks_at(IN_ALL_REDUCE, LOCKED, IN_ALL_REDUCE))
    assert named(judgement) == [("H1", (1,))]
    (finding,) = judgement.findings
    assert (finding.call, finding.waiting, finding.place) == ("all_reduce", (0, 2), (TRAIN, 7, "save"))
    assert judgement.reason == "rank 1 is at train.py:7 in save, while ranks 0,2 wait in all_reduce"
    assert judgement.groups[0].startswith("rank 1: waits for a lock")


def test_of_two_ranks_the_one_that_is_elsewhere() -> None:
    assert named(look(*ranks_at(LOCKED, IN_ALL_REDUCE))) == [("H1", (0,))]


def test_as_many_elsewhere_as_wait_name_nobody() -> None:
    assert named(look(*ranks_at(LOCKED, LOCKED, IN_ALL_REDUCE, IN_ALL_REDUCE))) == []
    assert named(look(*ranks_at(LOCKED, IN_ALL_REDUCE, IN_ALL_REDUCE), world_size=5)) == [], "two were not seen"


def test_the_worker_of_a_loader_is_the_place() -> None:
    start = ("_bootstrap", "/usr/lib/python3.12/multiprocessing/process.py", 314)
    idle = rank_of_frames(1, ("get", "/usr/lib/python3.12/queue.py", 1), start, *LOADS, parent=101, pid=7)
    busy = rank_of_frames(1, ("fetch", TRAIN, 15), start, *LOADS, parent=101, pid=8)
    (finding,) = look(*ranks_at(IN_ALL_REDUCE, LOADS, IN_ALL_REDUCE), idle, busy).findings
    assert (finding.ranks, finding.place) == ((1,), (TRAIN, 15, "fetch"))


@pytest.mark.parametrize(
    ("changed", "reason"),
    [
        ({"work": (work_of(100),)}, "rank 1: computes at train.py:7 in save"),
        ({"moved": 90_000}, "rank 1: it reads or writes at train.py:7 in save"),
        ({"waits": (19, 19)}, "rank 1: it has waited more than once at train.py:7 in save"),
        ({"state": "t"}, "rank 1: a debugger holds it at train.py:7 in save"),
        ({"state": "T"}, "rank 1: it was stopped or continued just now at train.py:7 in save"),
    ],
)
def test_a_rank_that_works_lets_the_others_wait(changed: dict[str, object], reason: str) -> None:
    slow = rank_of_frames(1, *LOCKED, work=(work_of(0),), moved=0, waits=(5, 5))
    judgement = look(
        *ranks_at(IN_ALL_REDUCE), slow, *ranks_at(IN_ALL_REDUCE, LOCKED, IN_ALL_REDUCE)[2:],
        after={slow.pid: slow._replace(**changed)},
    )  # fmt: skip
    assert (judgement.alive, judgement.findings, judgement.reason) == (True, (), reason)


def test_bytes_and_waits_of_a_heartbeat_are_no_work() -> None:
    held = rank_of_frames(1, *LOCKED, moved=0, waits=(5, 5))
    assert named(look(rank_of_frames(0, *IN_ALL_REDUCE), held, after={101: held._replace(moved=80, waits=(6, 6))}))


def test_a_rank_that_waits_for_a_child_that_computes_or_is_new() -> None:
    waits = rank_of_frames(1, ("wait", "/usr/lib/python3.12/subprocess.py", 1264), ("main", TRAIN, 8), MODULE)
    child = rank_of_frames(1, parent=101, pid=7, source="proc", work=(work_of(0),), command="cc1")
    others = ranks_at(IN_ALL_REDUCE)
    assert look(*others, waits, child, after={7: child._replace(work=(work_of(150),))}).reason.startswith(
        "rank 1: a child (cc1) computes"
    )
    assert look(*others, waits, child, after={7: child._replace(pid=8)}).alive
    assert named(look(*others, waits, child._replace(command="tokenize"))) == [("H1", (1,))]


def test_ranks_whose_steps_go_on_between_the_samples() -> None:
    waits = [each._replace(waits=(5, 5)) for each in ranks_at(IN_ALL_REDUCE, IN_ALL_REDUCE, LOCKED)]
    assert look(*waits, after={100: waits[0]._replace(waits=(12, 12))}).alive
    assert look(*waits, after={101: rank_of_frames(1, *IN_BARRIER)}).alive


def test_another_call_by_majority() -> None:
    judgement = look(*ranks_at(IN_ALL_REDUCE, IN_BARRIER, IN_ALL_REDUCE, IN_ALL_REDUCE))
    assert named(judgement) == [("H2", (1,))]
    (finding,) = judgement.findings
    assert (finding.call, finding.entered, finding.place) == ("all_reduce", "barrier", (TRAIN, 43, "main"))


@pytest.mark.parametrize(
    "frames",
    [
        (IN_ALL_REDUCE, IN_BARRIER, IN_ALL_REDUCE, IN_BARRIER),
        (IN_ALL_REDUCE, IN_BARRIER),
        (calls("all_reduce", 16, "dist.all_reduce(x, group=pair)"), IN_BARRIER, IN_BARRIER, IN_BARRIER),
        (calls("recv", 16), IN_BARRIER, IN_BARRIER, IN_BARRIER),
        (IN_BROADCAST, IN_BARRIER, IN_BARRIER, IN_BARRIER),
        (calls("all_reduce", 16, " "), IN_BARRIER, calls("barrier", 43, "wait_for_all()"), IN_ALL_REDUCE),
        (IN_ALL_REDUCE, IN_ALL_REDUCE, IN_ALL_REDUCE),
    ],
)
def test_no_majority_or_calls_that_may_be_those_of_some_ranks(frames: tuple) -> None:
    assert named(look(*ranks_at(*frames))) == []


def test_what_is_not_sure_adds_to_what_another_witness_says() -> None:
    (finding,) = look(*ranks_at(IN_BARRIER, calls("recv", 16), IN_BARRIER)).findings
    assert (finding.kind, finding.ranks, finding.entered, finding.place) == (None, (1,), "recv", (TRAIN, 16, "main"))


def test_all_wait_for_the_same_file() -> None:
    judgement = look(*ranks_at(OPENS, OPENS, OPENS))
    assert named(judgement) == [("H1", (0, 1, 2))]
    assert judgement.findings[0].place == (TRAIN, 16, "fetch")


@pytest.mark.parametrize(
    ("kind", "text"), [("sendall", "peer.sendall(data)"), ("lock", "lock.acquire()"), ("sleep", "time.sleep(1)")]
)
def test_all_wait_at_one_place_perhaps_for_each_other(kind: str, text: str) -> None:
    assert named(look(*ranks_at(*[(("main", TRAIN, 20, text),)] * 3))) == [], kind


def test_one_keeps_the_lock_of_a_file_that_the_others_wait_for() -> None:
    waits = (("main", TRAIN, 20, "fcntl.flock(file, fcntl.LOCK_EX)"),)
    reads = (("main", TRAIN, 25, "program.stdout.readline()"),)
    judgement = look(*ranks_at(waits, reads, waits))
    assert named(judgement) == [("H1", (1,))]
    assert judgement.findings[0].call == "flock"


def test_a_stopped_rank_and_the_call_that_it_is_in() -> None:
    stopped = rank_of_frames(1, *IN_BROADCAST, state="T")
    (finding,) = look(*ranks_at(IN_BARRIER), stopped, rank_of_frames(2, *IN_BARRIER)).findings
    assert (finding.kind, finding.ranks, finding.call) == ("H3", (1,), "broadcast")
    (finding,) = look(*ranks_at(IN_BROADCAST), stopped, rank_of_frames(2, *IN_BROADCAST)).findings
    assert (finding.kind, finding.ranks, finding.call) == ("H1", (1,), "broadcast")


def test_a_suspended_run_is_not_stuck() -> None:
    judgement = look(*ranks_at(IN_BARRIER, LOCKED, state="T"))
    assert (judgement.alive, judgement.reason) == (True, "all ranks are stopped, as those of a suspended job are")


def test_code_of_the_user_that_is_called_within_a_call() -> None:
    inside = (
        ("acquire", "/usr/lib/python3.12/threading.py", 10),
        ("__setstate__", TRAIN, 9),
        ("_tensor_to_object", C10D, 3435),
        ("all_gather_object", C10D, 3530),
        ("main", TRAIN, 42),
        MODULE,
    )
    (finding,) = look(*ranks_at(IN_BARRIER, inside, IN_BARRIER)).findings
    assert (finding.kind, finding.call, finding.place) == ("H3", "all_gather_object", (TRAIN, 9, "__setstate__"))
    with_others = calls("all_gather_object", 42)
    assert named(look(*ranks_at(with_others, inside, with_others))) == [("H1", (1,))], "they are in it, too"


def test_a_rank_that_is_late_for_the_meeting() -> None:
    (finding,) = look(*ranks_at(MEETS, LOCKED, MEETS)).findings
    assert (finding.kind, finding.ranks, finding.call) == ("H1", (1,), "init_process_group")
    assert named(look(*ranks_at(MEETS, MEETS), world_size=3)) == []


def test_who_serves_the_meeting_moves_bytes_while_it_waits() -> None:
    serves = rank_of_frames(0, *MEETS, moved=0)
    ranks = (serves, *ranks_at(MEETS, LOCKED, MEETS)[1:])
    assert named(look(*ranks, after={100: serves._replace(moved=9_000)})) == [("H1", (1,))]
    assert look(*ranks, after={100: serves._replace(moved=90_000)}).alive


def test_ranks_that_have_ended() -> None:
    polls = (("main", TRAIN, 20, "time.sleep(0.1)"),)
    assert named(look(*ranks_at(polls, polls), world_size=3, ended={2: 0})) == [], "processes tell of it"
    assert named(look(*ranks_at(IN_BARRIER, IN_ALL_REDUCE, IN_ALL_REDUCE), world_size=4, ended={3: 0})) == []
    assert named(look(rank_of_frames(0, *LOCKED), world_size=2, ended={1: 0})) == [("H1", (0,))]


def loop(seconds: float, frames: tuple = LOOPS, moves: bool = False) -> tuple[list[RankStacks], dict, float]:
    running = thread_of(*frames, active=True)._replace(holds_gil=True)
    spins = rank_of_frames(1, work=(work_of(0),), state="R", threads=(running,))
    line = running.frames[0]._replace(line=34) if moves else running.frames[0]
    other = spins._replace(threads=(running._replace(frames=(line, *running.frames[1:])),))
    return [*ranks_at(IN_ALL_REDUCE), spins], {101: other._replace(work=(work_of(190),))}, seconds


@pytest.mark.parametrize(
    ("frames", "moves", "moments", "found"),
    [
        (LOOPS, False, (0, 60, 180), [True, True, False]),
        (LOOPS, True, (0, 60, 180), [True, True, False]),
        (((*("match", PACKAGES + "/regex.py"), 4), *LOOPS), False, (0, 60, 180, 300, 360), [True] * 4 + [False]),
    ],
)
def test_a_rank_that_computes_in_one_place_for_too_long(
    frames: tuple, moves: bool, moments: tuple[float, ...], found: list[bool]
) -> None:
    former: list[StackJudgement] = []
    for moment in moments:
        ranks, after, at = loop(moment, frames, moves)
        former.append(look(*ranks, after=after, at=at, former=[each.summary for each in former]))
    assert [each.alive for each in former] == found
    assert named(former[-1]) == [("H1", (1,))]
    assert "for %d s or more" % moments[-1] in former[-1].reason


def test_a_rank_for_which_nobody_waits_works_as_long_as_it_computes() -> None:
    """A silent run of one rank, say, whose loop takes an hour."""
    former: list[StackJudgement] = []
    for moment in (0, 60, 180, 300, 3600):
        ranks, after, at = loop(moment)
        former.append(look(ranks[1], after=after, at=at, former=[each.summary for each in former]))
    assert all(each.alive for each in former)


def test_a_rank_that_computes_in_different_places_works() -> None:
    former: list[StackJudgement] = []
    for index, moment in enumerate((0, 60, 180, 300, 420, 480)):
        ranks, after, at = loop(moment, (("f%d" % (index % 2), TRAIN, 5), *LOOPS))
        former.append(look(*ranks, after=after, at=at, former=[each.summary for each in former]))
    assert all(each.alive for each in former)


def test_a_library_that_computes_on_different_lines_works() -> None:
    former: list[StackJudgement] = []
    for index, moment in enumerate((0, 60, 180, 300, 420, 480)):
        ranks, after, at = loop(moment, (("dot", PACKAGES + "/numpy/core.py", index), *LOOPS))
        former.append(look(*ranks, after=after, at=at, former=[each.summary for each in former]))
    assert all(each.alive for each in former)


def test_a_call_that_sleeps_again_and_again_while_it_waits() -> None:
    ends = rank_of_frames(1, waits=(5, 5), wait_channel="hrtimer_nanosleep")
    ends = ends._replace(threads=(thread_of(("<module>", TRAIN, 16, "MPI.Finalize()"), active=True),))
    others = ranks_at(*[(("<module>", TRAIN, 12, "world.Allreduce(MPI.IN_PLACE, x)"),)] * 3)
    ranks = [others[0], ends, others[2]]
    former: list[StackJudgement] = []
    for moment, channel in ((0, ""), (60, "hrtimer_nanosleep"), (180, "")):
        later = ends._replace(waits=(900, 900), wait_channel=channel)
        former.append(look(*ranks, after={101: later}, at=moment, former=[each.summary for each in former]))
    assert [each.alive for each in former] == [True, True, False]
    assert named(former[-1]) == [("H2", (1,))]
    sleeps = ends._replace(threads=(thread_of(("<module>", TRAIN, 16, "time.sleep(100)"), active=True),))
    assert named(look(others[0], sleeps, others[2])) == [("H1", (1,))]


def test_nothing_is_known() -> None:
    judgement = look()
    assert (judgement.alive, judgement.findings, judgement.groups) == (True, (), ())
    unseen = [rank_of_frames(rank, source="proc") for rank in (0, 1)]
    assert (look(*unseen).alive, look(*unseen).reason) == (True, "no rank's stack is known")
    assert named(look(rank_of_frames(0, *IN_ALL_REDUCE), rank_of_frames(1, state="D", source="proc"))) == [("H1", (1,))]


def test_a_callback_of_native_code_is_the_place() -> None:
    waits = rank_of_frames(1, ("main", TRAIN, 24, "result.wait()"), MODULE)
    callback = waits.threads[0]._replace(frames=(Frame("scale", TRAIN, 14),), main=False, name="")
    inside = waits._replace(threads=(callback, *waits.threads))
    (finding,) = look(rank_of_frames(0, *IN_BARRIER), inside, rank_of_frames(2, *IN_BARRIER)).findings
    assert (finding.kind, finding.ranks, finding.place) == ("H3", (1,), (TRAIN, 14, "scale"))
