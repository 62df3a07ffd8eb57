"""Folding lines of several ranks: what is equal is said once; nothing is lost, doubled or reordered."""

from __future__ import annotations

import time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from worldsize.logs.align import LOOKAHEAD
from worldsize.logs.fold import LineFolder
from worldsize.logs.numbers import merge_lines, number_key

FEW = st.sampled_from(["", "a", "b", "c", "step 1", "step 2", "loss 0.5", "loss 0.25"])
PUSH = st.tuples(st.just("push"), st.integers(0, 3), st.lists(FEW, min_size=1, max_size=12))
ACTION = (
    PUSH
    | PUSH
    | st.tuples(st.just("pop"), st.just(0), st.just([]))
    | st.tuples(st.just("close"), st.integers(0, 3), st.just([]))
)


def flat(groups):
    return [(ranks, line) for ranks, lines in groups for line in lines]


def pop(folder, now, drain=False):
    return flat(folder.pop(now, drain))


def said_by(rank, groups):
    return [line for ranks, line in groups if rank in ranks]


def play(folder, actions, steps):
    """Runs the actions, time going on by `steps`; what came out, and what each rank had said."""
    out, said, closed, now = [], {rank: [] for rank in range(4)}, set(), 100.0
    for i, (action, rank, lines) in enumerate(actions):
        now += steps[i % len(steps)]
        if action == "pop":
            out += pop(folder, now)
        elif action == "close":
            folder.close(rank)
            closed.add(rank)
        elif rank not in closed:
            folder.push_lines(rank, list(lines), now)
            said[rank] += lines
    return out + pop(folder, now, drain=True), said


@pytest.mark.exhaustive(unless=["same-0.2", "off-None"])
@pytest.mark.parametrize("window", [0.2, None])
@pytest.mark.parametrize("mode", ["same", "off"])
@given(actions=st.lists(ACTION, max_size=30), steps=st.lists(st.sampled_from([0.0, 0.05, 0.3]), min_size=1, max_size=5))
def test_each_ranks_lines_come_out_in_order_and_once(mode, window, actions, steps):
    out, said = play(LineFolder(range(4), mode, window), actions, steps)
    for rank in range(4):
        assert said_by(rank, out) == said[rank]
    assert all(list(ranks) == sorted(set(ranks)) for ranks, _ in out)


@given(actions=st.lists(ACTION, max_size=30), steps=st.lists(st.sampled_from([0.0, 0.05, 0.3]), min_size=1, max_size=5))
def test_numbers_mode_keeps_every_ranks_lines(actions, steps):
    out, said = play(LineFolder(range(4), "numbers"), actions, steps)
    for rank in range(4):
        shapes = [number_key(line.replace("{0.25..0.5}", "0.5").replace("{1..2}", "1")) for line in said_by(rank, out)]
        assert shapes == [number_key(line) for line in said[rank]]


@given(st.lists(st.lists(FEW, max_size=400), min_size=1, max_size=4), st.lists(st.integers(1, 50), min_size=1))
def test_without_a_window_the_portions_do_not_matter(lines, portions):
    def fold(sizes):
        folder, out = LineFolder(range(len(lines)), "same", None), []
        left = [list(of_rank) for of_rank in lines]
        turn = 0
        while any(left):
            for rank, of_rank in enumerate(left):
                turn += 1
                size = sizes[turn % len(sizes)]
                folder.push_lines(rank, of_rank[:size], 0.0)
                del of_rank[:size]
                if not of_rank:
                    folder.close(rank)
            out += pop(folder, 0.0)
        return out + pop(folder, 0.0, drain=True)

    assert fold([1000]) == fold(portions)


def test_equal_lines_fold_at_once():
    folder = LineFolder(range(8))
    for rank in range(8):
        folder.push_lines(rank, ["a", "b"], 1.0)
    assert pop(folder, 1.0) == [(tuple(range(8)), "a"), (tuple(range(8)), "b")]


def test_a_line_waits_for_the_others_to_say_it_too_and_no_longer_than_the_window():
    folder = LineFolder([0, 1, 2])
    folder.push_lines(0, ["a"], 1.0)
    assert pop(folder, 1.1) == []
    folder.push_lines(2, ["a"], 1.15)
    assert pop(folder, 1.19) == []
    assert pop(folder, 1.21) == [((0, 2), "a")], "the other that said it is not kept back"
    folder.push_lines(1, ["a"], 1.3)
    assert pop(folder, 1.4) == []
    assert pop(folder, 1.51) == [((1,), "a")]


def test_a_rank_that_ended_is_not_waited_for():
    folder = LineFolder([0, 1, 2])
    folder.push_lines(0, ["a"], 1.0)
    folder.push_lines(1, ["a"], 1.0)
    assert pop(folder, 1.0) == []
    folder.close(2)
    assert pop(folder, 1.0) == [((0, 1), "a")]


def test_extra_lines_of_one_rank_do_not_stop_the_folding_after_them():
    folder = LineFolder([0, 1, 2])
    for rank in range(3):
        extra = ["saved %d" % i for i in range(60)] if rank == 0 else []
        folder.push_lines(rank, ["epoch 1", *extra, "epoch 2", "epoch 3"], 1.0)
    out = pop(folder, 1.0)
    assert [line for ranks, line in out if ranks == (0, 1, 2)] == ["epoch 1", "epoch 2", "epoch 3"]
    assert len(out) == 63


def test_lines_that_some_ranks_share_are_grouped():
    folder = LineFolder(range(4), window=None)
    for rank in range(4):
        middle = ["mine"] if rank == 3 else ["ours", "too"]
        folder.push_lines(rank, ["start", *middle, "end"], 0.0)
    every = (0, 1, 2, 3)
    assert pop(folder, 0.0, drain=True) == [
        (every, "start"),
        ((0, 1, 2), "ours"),
        ((0, 1, 2), "too"),
        ((3,), "mine"),
        (every, "end"),
    ]


@pytest.mark.parametrize("one", [0, 1])
def test_of_several_common_lines_the_nearest_is_taken(one):
    folder = LineFolder([0, 1], window=None)
    folder.push_lines(one, ["far", "a", "near", "b"], 0.0)
    folder.push_lines(1 - one, ["near", "c", "d", "e", "far"], 0.0)
    assert ((0, 1), "near") in pop(folder, 0.0, drain=True)


def test_ranks_that_say_more_than_another_are_folded_among_themselves():
    folder = LineFolder(range(4), window=None)
    for rank in range(4):
        middle = ["rank %d" % rank, "warning"] if rank else []
        folder.push_lines(rank, [*middle, "end"], 0.0)
    assert pop(folder, 0.0, drain=True) == [
        ((1,), "rank 1"),
        ((2,), "rank 2"),
        ((3,), "rank 3"),
        ((1, 2, 3), "warning"),
        ((0, 1, 2, 3), "end"),
    ]


def test_what_differs_comes_rank_by_rank():
    folder = LineFolder([0, 1], window=None)
    folder.push_lines(0, ["Traceback:", "  a", "  b"], 0.0)
    folder.push_lines(1, ["Error:", "  c", "  d"], 0.0)
    assert [ranks[0] for ranks, _ in pop(folder, 0.0, drain=True)] == [0, 0, 0, 1, 1, 1]


def test_bulk_output_that_differs_does_not_wait_for_the_window():
    folder = LineFolder([0, 1])
    for rank in range(2):
        folder.push_lines(rank, ["rank %d line %d" % (rank, i) for i in range(10_000)], 1.0)
    assert len(pop(folder, 1.0)) > 2 * (10_000 - LOOKAHEAD)


def test_a_flood_of_one_rank_is_not_held_back():
    folder = LineFolder([0, 1])
    folder.push_lines(0, ["x" * 1000] * 40_000, 1.0)
    assert len(pop(folder, 1.0)) == 40_000


def test_delays_do_not_add_up():
    """One line every 10 ms from one rank of two comes out after 200 ms, each, also the last."""
    folder = LineFolder([0, 1])
    late = []
    for i in range(1000):
        now = i / 100
        folder.push_lines(0, [str(i)], now)
        late += [now - int(line) / 100 for _, line in pop(folder, now)]
    assert len(late) >= 975
    assert max(late) < 0.25


def test_numbers_fold_to_their_range():
    folder = LineFolder(range(3), "numbers")
    for rank, loss in enumerate(("0.51", "0.63", "0.55")):
        folder.push_lines(rank, ["[rank%d] step 7: loss %s" % (rank, loss), "same 1"], 0.0)
    assert pop(folder, 0.0) == [
        ((0, 1, 2), "[rank{0..2}] step 7: loss {0.51..0.63}"),
        ((0, 1, 2), "same 1"),
    ]


@pytest.mark.parametrize(
    ("lines", "text"),
    [
        (["a 1", "a 1"], "a 1"),
        (["a -1 b", "a 2 b", "a -3 b"], "a {-3..2} b"),
        (["x-1", "x-2"], "x-{1..2}"),
        (["1e-3s", "2.5s"], "{1e-3..2.5}s"),
        (["at 0xff", "at 0x10"], "at {0x10..0xff}"),
        (["7", "07"], "7"),
        (["0x" + "f" * 400, "0x1"], "{0x1..0x" + "f" * 400 + "}"),
        (["9" * 5000 + "x", "1x"], "{1..%sx" % ("9" * 5000 + "}")),
    ],
)
def test_merged_numbers(lines, text):
    assert len({number_key(line) for line in lines}) == 1
    assert merge_lines(lines) == text


def test_a_nan_stands_out():
    assert number_key("loss nan") != number_key("loss 0.5")


@pytest.mark.timing
@pytest.mark.parametrize(("mode", "differ"), [("same", False), ("same", True), ("off", True)])
def test_throughput(mode, differ):
    """At least 300,000 lines a second; here the measured figure is well above a million."""
    lines = [["rank %d step %d" % (rank * differ, i) for i in range(5000)] for rank in range(64)]
    folder = LineFolder(range(64), mode)
    started = time.process_time()
    count = 0
    for first in range(0, 5000, 500):
        for rank in range(64):
            folder.push_lines(rank, lines[rank][first : first + 500], 0.0)
        count += sum(len(ranks) for ranks, _ in pop(folder, 0.0))
    count += sum(len(ranks) for ranks, _ in pop(folder, 0.0, drain=True))
    assert count == 64 * 5000
    assert count / (time.process_time() - started) > 300_000
