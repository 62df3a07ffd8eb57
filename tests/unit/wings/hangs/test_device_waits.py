"""Ranks whose main threads wait for their GPUs, in built stacks: these may work, or wait for other ranks."""

from __future__ import annotations

import pytest
from recorded_stacks import frames_of, rank_of_frames, thread_of, work_of

from worldsize.wings.hangs.judgement.stacks.rank_stacks import FAULTHANDLER, RAN_ON, RankStacks, ThreadStack, ThreadWork
from worldsize.wings.hangs.judgement.stacks.stack_witness import StackJudgement, judge_stacks

LIMIT, GAP, HERTZ = 60.0, 5.0, 100
LOOKS = (0, 60, 180, 300, 360, 420)
"""When looks are taken: the first five are what the watch does, whose first comes after 60 s of silence."""

TRAIN = "/job/train.py"
TORCH = "/env/lib/python3.12/site-packages/torch/"
MAIN = ("main", TRAIN, 90)
ITEM = (("step", TRAIN, 41, "total += loss.item()"), MAIN)
SYNCHRONIZE = (
    ("synchronize", TORCH + "cuda/__init__.py", 1040, "return torch._C._cuda_synchronize()"),
    ("step", TRAIN, 44, "torch.cuda.synchronize()"),
    MAIN,
)
COMPARES = (("step", TRAIN, 50, "if loss > 3:"), MAIN)
BACKWARD = (
    ("_engine_run_backward", TORCH + "autograd/graph.py", 824),
    ("backward", TORCH + "autograd/__init__.py", 347),
    ("step", TRAIN, 40, "loss.backward()"),
    MAIN,
)
ALL_REDUCE = (
    ("all_reduce", TORCH + "distributed/distributed_c10d.py", 3000),
    ("step", TRAIN, 45, "dist.all_reduce(loss)"),
    MAIN,
)
WRITES = (("write", TRAIN, 7), ("run", "/usr/lib/python3.12/threading.py", 1))
SLEEPS = (("fetch", TRAIN, 16, "time.sleep(600)"), MAIN)
COUNTS = (("count", TRAIN, 33, "while total < 5:"), MAIN)
AUTOGRAD = "pt_autograd_0"
RECOMPUTES = (("forward", "/job/model.py", 12), ("apply", TORCH + "autograd/function.py", 9))


def rank_at(rank: int, frames: tuple, spins: bool = False, gil: bool | None = False) -> RankStacks:
    """A rank whose main thread, which is number 100 there, waits, or spins without Python's lock."""
    thread = thread_of(*frames, active=spins)._replace(holds_gil=gil, id=100)
    state = "R" if spins else "S"
    return rank_of_frames(rank)._replace(threads=(thread,), state=state, work=(work_of(0),), waits=(5, 5))


def spinning(frames: tuple, *ranks: int, gil: bool | None = False) -> list[RankStacks]:
    return [rank_at(rank, frames, True, gil) for rank in ranks]


def asleep(frames: tuple, *ranks: int) -> list[RankStacks]:
    return [rank_at(rank, frames) for rank in ranks]


def with_thread(stacks: RankStacks, name: str, *frames: tuple) -> RankStacks:
    """With another thread, number 101, of this name: without frames, one that Python does not know."""
    threads = (ThreadStack("", frames_of(*frames), True, False, False, 101), *stacks.threads) if frames else None
    work = (*stacks.work, ThreadWork(101, name, "R", 0))
    return stacks._replace(work=work, threads=threads or stacks.threads)


def at_time(stacks: RankStacks, seconds: float, ticks: dict[int, float]) -> RankStacks:
    """After so many seconds: a main thread that spins has used them all, another one so many ticks in each."""
    used = {100: float(HERTZ) if stacks.state == "R" else 0.0, **ticks}
    work = tuple(each._replace(ticks=int(seconds * used.get(each.id, 0.0))) for each in stacks.work)
    return stacks._replace(time=1000.0 + seconds, work=work)


def looks(
    ranks: list[RankStacks], moments: tuple[float, ...] = LOOKS, ticks: dict[int, float] | None = None, **fields: object
) -> list[StackJudgement]:
    """The judgements of looks at these moments, until one says that the run is stuck."""
    found: list[StackJudgement] = []
    for moment in moments:
        samples = [[at_time(each, at, ticks or {}) for each in ranks] for at in (moment, moment + GAP)]
        former = [each.summary for each in found]
        size = len({each.rank for each in ranks})
        found.append(judge_stacks(*samples, size, LIMIT, None, former, HERTZ, **fields))  # type: ignore[arg-type]
        if not found[-1].alive:
            break
    return found


def named(judgement: StackJudgement) -> list[tuple[str | None, tuple[int, ...]]]:
    assert not judgement.alive and judgement.findings
    return [(each.kind, each.ranks) for each in judgement.findings if each.kind]


def stuck_after(found: list[StackJudgement]) -> float | None:
    """The moment of the look that said so."""
    return None if found[-1].alive else LOOKS[len(found) - 1]


WAITING = [
    spinning(ITEM, 0, 1, 2, 3),
    asleep(ITEM, 0, 1, 2, 3),
    spinning(SYNCHRONIZE, 0, 1, 2, 3),
    asleep(SYNCHRONIZE, 0, 1, 2, 3),
    spinning(BACKWARD, 0, 1, 2, 3),
    [*spinning(ITEM, 0, 1), *spinning(SYNCHRONIZE, 2, 3)],
    spinning(ITEM, 0),
    asleep(SYNCHRONIZE, 0),
    spinning(BACKWARD, 0),
]


@pytest.mark.parametrize("ranks", WAITING)
def test_all_wait_for_their_devices_which_may_work(ranks: list[RankStacks]) -> None:
    found = looks(ranks)
    assert stuck_after(found) == 360, "in one place for six times the limit"
    assert named(found[-1]) == []
    assert found[-1].groups


def test_the_words_for_it() -> None:
    assert looks(spinning(ITEM, 0, 1, 2))[0].reason == (
        "rank 0: its device may work while it waits in item at train.py:41 in step; ranks 1-2 as well"
    )
    (line,) = looks(spinning(ITEM, 0, 1, 2))[0].groups
    assert line == "ranks 0-2: wait for its device in item at train.py:41 in step"


@pytest.mark.parametrize("ranks", WAITING)
def test_devices_that_are_seen_to_do_nothing(ranks: list[RankStacks]) -> None:
    own = [each.rank for each in ranks]
    assert stuck_after(looks(ranks, idle=own)) == 0
    assert stuck_after(looks(ranks, idle=own[1:])) == 360, "one of them may work"


@pytest.mark.parametrize("waits", [spinning(ITEM, 0, 1, 2), asleep(SYNCHRONIZE, 0, 1, 2), spinning(BACKWARD, 0, 1, 2)])
def test_one_is_elsewhere_while_the_others_wait_for_their_devices(waits: list[RankStacks]) -> None:
    ranks = [*waits, *asleep(SLEEPS, 3)]
    assert stuck_after(looks(ranks)) == 360, "the others may be at work, and it waits for them"
    assert named(looks(ranks)[-1]) == [("H1", (3,))]
    at_once = looks(ranks, idle=[0, 1, 2, 3])
    assert stuck_after(at_once) == 0
    assert named(at_once[-1]) == [("H1", (3,))]


def test_one_loops_in_python_while_the_others_wait_for_their_devices() -> None:
    found = looks([*spinning(ITEM, 0, 1, 2), *spinning(COUNTS, 3, gil=True)])
    assert stuck_after(found) == 360
    assert named(found[-1]) == [("H1", (3,))]


@pytest.mark.parametrize("frames", [ITEM, SYNCHRONIZE, BACKWARD, COMPARES])
def test_one_evaluates_on_its_device_while_the_others_wait_for_it(frames: tuple) -> None:
    others = asleep(ALL_REDUCE, 0, 1, 2)
    assert stuck_after(looks([*others, *spinning(frames, 3)])) == 360
    others = asleep((("wait", TRAIN, 60, "time.sleep(5)"), MAIN), 0, 1, 2)
    assert stuck_after(looks([*others, *spinning(frames, 3)])) == 360


def test_it_is_not_named_for_it() -> None:
    (finding,) = looks([*asleep(ALL_REDUCE, 0, 1, 2), *spinning(ITEM, 3)])[-1].findings
    assert (finding.kind, finding.entered, finding.ranks) == (None, "", (3,))
    assert looks([*asleep(ALL_REDUCE, 0, 1, 2), *spinning(ITEM, 3)], idle=[3])[-1].findings[0].kind is None


def test_a_rank_that_comes_to_another_line_works() -> None:
    found: list[StackJudgement] = []
    for index, moment in enumerate(LOOKS):
        frames = ITEM if index % 2 else SYNCHRONIZE
        ranks = [*asleep(ALL_REDUCE, 0, 1, 2), *spinning(frames, 3)]
        samples = [[at_time(each, at, {}) for each in ranks] for at in (moment, moment + GAP)]
        found.append(judge_stacks(*samples, 4, LIMIT, None, [each.summary for each in found], HERTZ))
    assert all(each.alive for each in found)
    before, after = spinning(ITEM, 0), spinning(SYNCHRONIZE, 0)
    moves = judge_stacks(before, [each._replace(time=1005.0) for each in after], 1, LIMIT, idle=[0])
    assert (moves.alive, moves.reason) == (True, "rank 0: it has reached another call at train.py:44 in step")


EVER = tuple(range(0, 7200, 300))


@pytest.mark.parametrize("frames", [ITEM, SYNCHRONIZE, ALL_REDUCE])
def test_a_backward_pass_has_run_between_two_samples_of_one_line(frames: tuple) -> None:
    """A silent training is nearly always seen at the line where it waits for its GPU."""
    trains = [with_thread(each, AUTOGRAD) for each in spinning(frames, 0, 1)]
    found = looks(trains, EVER, {101: 2.0}, idle=[0, 1])
    assert all(each.alive for each in found)
    assert found[0].reason == "rank 0: its backward pass has run at train.py:%d in step; rank 1 as well" % frames[-2][2]


@pytest.mark.parametrize("frames", [ITEM, SYNCHRONIZE])
def test_or_between_two_looks_where_steps_are_long(frames: tuple) -> None:
    trains = [with_thread(each, AUTOGRAD) for each in spinning(frames, 0, 1)]
    assert all(each.alive for each in looks(trains, EVER, {101: 0.25})), "a tick within each look, and 75 between two"
    assert not looks(trains, EVER, {101: 0.0005})[-1].alive


@pytest.mark.parametrize("frames", [SYNCHRONIZE, BACKWARD])
def test_a_main_thread_that_sleeps_whenever_it_is_looked_at_and_computes_in_between(frames: tuple) -> None:
    trains = [with_thread(each, AUTOGRAD) for each in asleep(frames, 0, 1)]
    busy = 100.0 if frames is BACKWARD else 0.0
    assert all(each.alive for each in looks(trains, EVER, {100: 5.0, 101: busy}))
    assert stuck_after(looks(trains, LOOKS, {100: 0.0, 101: busy})) == 360


def test_threads_of_nccl_that_spin_are_no_work() -> None:
    waits = [with_thread(each, "python3") for each in asleep(ALL_REDUCE, 0, 1, 2)]
    found = looks([*waits, *asleep(SLEEPS, 3)], ticks={101: 100.0})
    assert stuck_after(found) == 0
    assert named(found[-1]) == [("H1", (3,))]


def test_a_thread_of_python_that_computes_beside_a_call_is_work() -> None:
    waits = [with_thread(each, "python3", *WRITES) for each in asleep(ALL_REDUCE, 0, 1, 2)]
    found = looks([*waits, *asleep(SLEEPS, 3)], ticks={101: 100.0})
    assert found[0].reason == "rank 0: other threads of it compute at train.py:45 in step; ranks 1-2 as well"
    unknown = [each._replace(threads=tuple(one._replace(id=None) for one in each.threads)) for each in waits]
    assert looks([*unknown, *asleep(SLEEPS, 3)], ticks={101: 100.0})[0].alive, "whose thread it is, nobody tells"


def test_threads_beside_a_call_of_another_library_may_work() -> None:
    frames = (("synchronize", "/env/lib/python3.12/site-packages/horovod/torch/mpi_ops.py", 900), *ALL_REDUCE[1:])
    waits = [with_thread(each, "python3") for each in asleep(frames, 0, 1, 2)]
    assert looks([*waits, *asleep(SLEEPS, 3)], ticks={101: 100.0})[0].alive


@pytest.mark.parametrize("called", [(), RECOMPUTES])
@pytest.mark.parametrize("ticks", [0.0, 100.0])
def test_autograd_launches_work_while_the_main_thread_sleeps(called: tuple, ticks: float) -> None:
    """Its thread fills the GPU's queue, and spins or sleeps when that is full; recomputed activations run the user's
    code."""
    trains = [with_thread(each, AUTOGRAD, *called) for each in asleep(BACKWARD, 0, 1, 2)]
    found = looks(trains, ticks={101: ticks})
    assert stuck_after(found) == 360
    assert named(found[-1]) == []
    found = looks([*trains, *asleep(SLEEPS, 3)], ticks={101: ticks}, idle=[0, 1, 2])
    assert named(found[-1]) == [("H1", (3,))]


def test_what_the_backward_pass_calls_may_wait_elsewhere() -> None:
    called = (("acquire", "/usr/lib/python3.12/threading.py", 10), ("hook", "/job/model.py", 14))
    one = [with_thread(each, AUTOGRAD, *called) for each in asleep(BACKWARD, 3)]
    found = looks([*asleep(ALL_REDUCE, 0, 1, 2), *one])
    assert stuck_after(found) == 0
    (finding,) = found[-1].findings
    assert (finding.kind, finding.ranks, finding.place) == ("H3", (3,), ("/job/model.py", 14, "hook"))


def test_one_recomputes_while_the_others_have_come_further() -> None:
    one = [with_thread(each, AUTOGRAD, *RECOMPUTES) for each in asleep(BACKWARD, 3)]
    assert stuck_after(looks([*asleep(ALL_REDUCE, 0, 1, 2), *one], ticks={101: 100.0})) == 360


def test_backward_without_a_device_waits_for_the_other_ranks() -> None:
    found = looks([*asleep(BACKWARD, 0, 1, 2), *asleep(SLEEPS, 3)])
    assert stuck_after(found) == 0
    assert named(found[-1]) == [("H1", (3,))]


@pytest.mark.parametrize("count", [1, 4])
def test_a_call_of_c_that_lets_go_of_pythons_lock_is_no_loop_in_python(count: int) -> None:
    """`if loss > 3:` waits for the GPU, and nothing but the lock shows that it is not Python that runs."""
    found = looks(spinning(COMPARES, *range(count)))
    assert stuck_after(found) == 360
    assert named(found[-1]) == []


def test_what_may_wait_for_its_device_is_not_named_among_those_that_do() -> None:
    found = looks([*spinning(ITEM, 0, 1, 2), *spinning(COMPARES, 3)])
    assert stuck_after(found) == 360
    assert named(found[-1]) == []
    many = looks([*spinning(ITEM, *range(6)), *spinning(COMPARES, 6), *asleep(SLEEPS, 7)])
    assert named(many[-1]) == [("H1", (7,))]


def unlocked(frames: tuple, problem: str) -> list[RankStacks]:
    """As faulthandler tells: neither who computes nor who holds Python's lock."""
    thread = thread_of(*frames, active=None)._replace(holds_gil=None)
    fields = {"source": FAULTHANDLER, "threads": (thread,), "problem": problem}
    return [each._replace(**fields) for each in spinning(frames, 3)]


@pytest.mark.parametrize(
    ("frames", "problem", "moment"),
    [
        (COUNTS, RAN_ON, 180),
        (COUNTS, "py-spy is not installed", 360),
        (COMPARES, "py-spy is not installed", 360),
        (ITEM, RAN_ON, 360),
        (ITEM, "py-spy is not installed", 360),
    ],
)
def test_who_holds_pythons_lock_is_not_known(frames: tuple, problem: str, moment: float) -> None:
    """Where py-spy finds no frames, they change while it reads: it is Python that runs."""
    assert stuck_after(looks([*asleep(ALL_REDUCE, 0, 1, 2), *unlocked(frames, problem)])) == moment


def test_a_line_that_calls_c_is_no_loop_in_python() -> None:
    reads = (("fetch", TRAIN, 17, "data = file.read()"), MAIN)
    assert stuck_after(looks([*asleep(ALL_REDUCE, 0, 1, 2), *spinning(reads, 3, gil=True)])) == 360


@pytest.mark.parametrize(
    ("states", "ticks", "waits", "works"),
    [("RR", 0.0, 5, True), ("RR", 3.0, 6, True), ("RS", 3.0, 6, True), ("RS", 1.0, 6, False), ("SR", 3.0, 9, False)],
)
def test_a_rank_that_is_ready_to_run_works_though_others_have_the_processor(
    states: str, ticks: float, waits: int, works: bool
) -> None:
    (loops,) = spinning(COUNTS, 3, gil=True)
    before, after = (at_time(loops._replace(state="S"), at, {100: ticks}) for at in (0.0, GAP))
    before, after = before._replace(state=states[0]), after._replace(state=states[1], waits=(waits, waits))
    others = [[at_time(each, at, {}) for each in asleep(ALL_REDUCE, 0, 1, 2)] for at in (0.0, GAP)]
    judged = judge_stacks([*others[0], before], [*others[1], after], 4, LIMIT, hertz=HERTZ)
    assert (judged.reason == "rank 3: computes at train.py:33 in count") is works


def test_a_device_is_waited_for_in_the_midst_of_a_compilation() -> None:
    tunes = (
        *SYNCHRONIZE[:1],
        ("autotune_to_one_config", TORCH + "_inductor/runtime/triton_heuristics.py", 900),
        ("step", TRAIN, 44, "model(x)"),
        MAIN,
    )
    assert stuck_after(looks(spinning(tunes, 0, 1))) == 360
