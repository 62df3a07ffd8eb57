"""Groups of ranks with equal stacks, and what has changed between two looks."""

from __future__ import annotations

import pytest
from recorded_stacks import rank_of_frames, recorded_rank, work_of

from worldsize.wings.hangs.judgement.stacks.rank_stacks import Frame
from worldsize.wings.hangs.judgement.stacks.stack_groups import (
    compare_samples,
    computing_share,
    group_line,
    group_ranks,
    place_words,
    process_words,
)

C10D = "/env/lib/python3.12/site-packages/torch/distributed/distributed_c10d.py"
IN_ALL_REDUCE = (("all_reduce", C10D, 3252), ("main", "/job/train.py", 41), ("<module>", "/job/train.py", 90))
IN_BARRIER = (("barrier", C10D, 5000), ("main", "/job/train.py", 43), ("<module>", "/job/train.py", 90))
EVALUATES = (("Model.evaluate", "/job/train.py", 7), ("main", "/job/train.py", 44), ("<module>", "/job/train.py", 90))


def test_the_smallest_group_comes_first_and_says_where_it_is() -> None:
    ranks = [rank_of_frames(rank, *IN_ALL_REDUCE) for rank in (4, 2, 0, 1)]
    groups = group_ranks([*ranks, rank_of_frames(3, *EVALUATES), rank_of_frames(5, *IN_BARRIER)])
    assert [group.ranks for group in groups] == [(3,), (5,), (0, 1, 2, 4)]
    assert [group_line(group) for group in groups] == [
        "rank 3: is at train.py:7 in Model.evaluate",
        "rank 5: waits in barrier at train.py:43 in main",
        "ranks 0-2,4: wait in all_reduce at train.py:41 in main",
    ]


def test_a_class_that_only_one_source_knows_makes_no_other_group() -> None:
    without = (("evaluate", "/job/train.py", 7), *EVALUATES[1:])
    (group,) = group_ranks([rank_of_frames(0, *EVALUATES), rank_of_frames(1, *without, source="faulthandler")])
    assert group.ranks == (0, 1)


def test_children_are_in_no_group_and_stopped_ranks_in_their_own() -> None:
    groups = group_ranks(
        [
            rank_of_frames(0, *IN_ALL_REDUCE),
            rank_of_frames(0, *EVALUATES, parent=100, pid=7),
            rank_of_frames(1, *IN_ALL_REDUCE, state="T"),
            rank_of_frames(2, state="T", source="proc"),
            rank_of_frames(3, state="S", source="proc", wait_channel="pipe_read"),
        ]
    )
    assert sorted(group.ranks for group in groups) == [(0,), (1,), (2,), (3,)]
    assert {group.ranks[0]: group_line(group) for group in groups} == {
        0: "rank 0: waits in all_reduce at train.py:41 in main",
        1: "rank 1: is stopped (SIGSTOP) at train.py:41 in main",
        2: "rank 2: is stopped (SIGSTOP)",
        3: "rank 3: shows no stack of Python (the kernel waits in pipe_read)",
    }
    assert group_ranks([]) == ()


@pytest.mark.parametrize(
    ("after", "found"),
    [
        (IN_ALL_REDUCE, "same"),
        ((*IN_ALL_REDUCE[:1], ("main", "/job/train.py", 42), IN_ALL_REDUCE[2]), "moved"),
        ((("all_reduce", C10D, 3260), *IN_ALL_REDUCE[1:]), "moved"),
        (IN_BARRIER, "elsewhere"),
        (IN_ALL_REDUCE[1:], "elsewhere"),
        ((), None),
    ],
)
def test_two_looks_at_one_rank(after: tuple[tuple[str, str, int], ...], found: str | None) -> None:
    before = rank_of_frames(0, *IN_ALL_REDUCE)
    assert compare_samples(before, rank_of_frames(0, *after)) == found


def test_another_process_is_elsewhere() -> None:
    before = rank_of_frames(0, *IN_ALL_REDUCE)
    assert compare_samples(before, before._replace(pid=1)) == "elsewhere"


def test_how_much_a_rank_computes_between_two_looks() -> None:
    before = rank_of_frames(0, *IN_ALL_REDUCE, work=(work_of(100), work_of(10, 101), work_of(0, 102)))
    after = before._replace(time=1002.0, work=(work_of(300), work_of(30, 101), work_of(9999, 103)))
    assert computing_share(before, after, 100) == pytest.approx(1.1)
    assert computing_share(before, before, 100) is None, "no time has passed"
    assert computing_share(before, after._replace(pid=1), 100) is None
    assert computing_share(before, after._replace(work=()), 100) is None
    assert computing_share(before, after._replace(work=(work_of(5),)), 100) is None, "it is another thread"


def test_words_of_real_ranks() -> None:
    assert [process_words(recorded_rank(name)) for name in ("sleep", "loader", "init_process_group")] == [
        "is at two.py:10 in step",
        "waits for the workers of its DataLoader at loader.py:8 in main",
        "waits at the start in init_process_group at start.py:3 in <module>",
    ]
    assert process_words(recorded_rank("regular_expression", state="R")) == "computes at gil.py:4 in match"
    assert (
        process_words(recorded_rank("sleep", wait_channel="hrtimer_nanosleep"))
        == "sleeps in sleep at two.py:10 in step"
    )
    assert process_words(rank_of_frames(0, state="")) == "has ended"


def test_places_are_one_line_whatever_they_are_called() -> None:
    assert place_words(Frame("f\x1b[2J", "/job/a\nb.py", 3)) == "at a\\nb.py:3 in f\\x1b[2J"
    assert place_words(Frame("", "", 0)) == "at ? in ?"
    assert place_words(Frame("run", "/job/trainer/__init__.py", 3)) == "at trainer/__init__.py:3 in run"
