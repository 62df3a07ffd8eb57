"""Stacks of ranks as values, and what is read of py-spy, faulthandler and /proc, whole or damaged."""

from __future__ import annotations

import json
import os

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from recorded_stacks import RECORDINGS, recorded_rank, recorded_threads, work_of
from selection import cases

from worldsize.wings.hangs.judgement.stacks.rank_stacks import (
    Frame,
    RankStacks,
    ThreadWork,
    parse_faulthandler,
    parse_proc,
    parse_py_spy,
    parse_stacks_line,
    parse_thread_stat,
    parse_wait_channel,
    stacks_line,
)

DUMPS = (RECORDINGS / "two_dumps.txt").read_text()
STAT = b"4711 (a (b) c) S 1 4711 4711 0 -1 4194304 100 0 0 0 42 8 7 9 20 0 3 0 12345 1000 200"


def test_py_spy_tells_threads_frames_and_who_holds_the_lock() -> None:
    (thread,) = recorded_threads("all_reduce")
    assert (thread.name, thread.main, thread.active, thread.holds_gil) == ("MainThread", True, False, False)
    assert [frame.name for frame in thread.frames] == ["all_reduce", "wrapper", "step", "main", "<module>"]
    assert thread.frames[2] == Frame("step", "/job/two.py", 12)
    assert thread.id is not None
    (busy,) = recorded_threads("regular_expression")
    assert (busy.main, busy.active, busy.holds_gil) == (True, True, True), (
        "it has no name, and is the first all the same"
    )


def test_py_spy_only_supposes_that_a_thread_computes_whose_number_it_does_not_know() -> None:
    recorded = json.loads((RECORDINGS / "regular_expression.json").read_text())
    recorded[0].update(os_thread_id=None)
    (thread,) = parse_py_spy(json.dumps(recorded))
    assert (thread.active, thread.holds_gil, thread.main) == (None, True, False)
    recorded[0].update(active=False)
    assert parse_py_spy(json.dumps(recorded))[0].active is False


def test_the_main_thread_is_found_among_others() -> None:
    stacks = recorded_rank("loader")
    assert len(stacks.threads) == 3
    assert stacks.main_thread is not None and stacks.main_thread.name == "MainThread"
    assert stacks._replace(threads=()).main_thread is None
    others = tuple(each for each in stacks.threads if not each.main)
    assert stacks._replace(threads=others).main_thread == others[-1]


def test_faulthandler_tells_several_dumps_in_one_file() -> None:
    first, second = parse_faulthandler(DUMPS)
    assert first == second
    assert [thread.main for thread in first] == [False, False, True]
    assert first[-1].frames == (Frame("<module>", "<stdin>", 10),)
    assert first[0].frames[0] == Frame("wait", "/usr/lib/python3.13/threading.py", 359)
    assert {(thread.active, thread.holds_gil) for thread in first} == {(None, None)}


@pytest.mark.parametrize("cut", range(0, len(DUMPS), 37))
def test_a_file_of_dumps_that_was_cut_short_keeps_what_is_whole(cut: int) -> None:
    dumps = parse_faulthandler(DUMPS[:cut])
    whole = parse_faulthandler(DUMPS)
    assert len(dumps) <= 2
    lines = [frame.line for dump in dumps for thread in dump for frame in thread.frames]
    known = [frame.line for dump in whole for thread in dump for frame in thread.frames]
    assert lines[:-1] == known[: len(lines)][:-1], "but for the last line, which is cut"
    assert parse_faulthandler("damaged\x00\n" + DUMPS) == whole


def test_faulthandler_with_names_and_more_threads_than_it_tells() -> None:
    dump = parse_faulthandler(
        'Thread 0x0001 [Loader (1)] (most recent call first):\n  File "a.py", line 3 in f\n\n'
        "Current thread 0x0002 [python3] (most recent call first):\n  Garbage-collecting\n"
        "  File ???, line ??? in ???\n\n...\n"
    )
    assert [(each.name, each.main, each.frames) for each in dump[0]] == [
        ("Loader (1)", False, (Frame("f", "a.py", 3),)),
        ("python3", True, (Frame("???", "", 0),)),
    ]


def test_the_kernel_tells_states_and_times() -> None:
    assert parse_thread_stat(4711, STAT) == ThreadWork(4711, "a (b) c", "S", 50)
    for damaged in (b"", b"4711", STAT[:30], STAT.replace(b" 42 ", b" x "), STAT.replace(b" S ", b" SS ")):
        assert parse_thread_stat(4711, damaged) is None
    found = parse_proc(4711, {12: STAT, 4711: STAT, 13: b""})
    assert [work.id for work in found] == [4711, 12], "the first thread comes first"
    assert parse_wait_channel(b"futex_do_wait") == "futex_do_wait"
    assert [parse_wait_channel(each) for each in (b"0", b"", b"\xff\x00", b"a b")] == [""] * 4


def test_one_line_carries_a_process() -> None:
    stacks = recorded_rank("loader", work=(work_of(5), work_of(6, 101)), parent=7, problem="none")
    assert parse_stacks_line(stacks_line(stacks)) == stacks
    longer = [*json.loads(stacks_line(stacks)), "of a newer release"]
    assert parse_stacks_line(json.dumps(longer)) == stacks


@pytest.mark.parametrize(
    "line", ["", "{", "[]", "7", '"text"', "[1, 2, 3]", "[" * 100000, b"\xff\xfe", '{"rank": "0"}']
)
def test_other_lines_carry_none(line: str | bytes) -> None:
    assert parse_stacks_line(line) is None


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=5),
    lambda inner: (
        st.lists(inner, max_size=4)
        | st.dictionaries(
            st.sampled_from(["frames", "name", "line", "filename", "pid", "os_thread_id", "active"]), inner
        )
    ),
    max_leaves=20,
)


@settings(max_examples=cases(200))
@given(JSON)
def test_no_json_makes_a_reader_raise(value: object) -> None:
    text = json.dumps(value)
    for thread in parse_py_spy(text):
        assert all(isinstance(frame, Frame) for frame in thread.frames)
    assert parse_stacks_line(text) is None or isinstance(parse_stacks_line(text), RankStacks)


@settings(max_examples=cases(200))
@given(st.data())
def test_no_damage_makes_a_reader_raise(data: st.DataObject) -> None:
    recordings = [(RECORDINGS / name).read_bytes() for name in sorted(os.listdir(RECORDINGS))]
    found = bytearray(data.draw(st.sampled_from(recordings)))
    for _ in range(data.draw(st.integers(1, 8))):
        at = data.draw(st.integers(0, len(found) - 1))
        found[at : at + data.draw(st.integers(0, 40))] = data.draw(st.binary(max_size=10))
        if not found:
            return
    parse_py_spy(bytes(found))
    parse_faulthandler(bytes(found).decode("utf-8", "replace"))
    parse_thread_stat(1, bytes(found))
    parse_wait_channel(bytes(found))
