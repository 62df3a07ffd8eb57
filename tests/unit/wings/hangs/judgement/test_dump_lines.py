"""A dump as one line: what it leaves out changes no verdict, and whatever is read raises nothing."""

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st
from recorded_dumps import call, dump, dumps, waiting

from worldsize.wings.hangs.judgement.recorder.dump_lines import MOST_BYTES, dump_line, parse_dump_line
from worldsize.wings.hangs.judgement.recorder.flight_recorder import Dump, merged_dumps
from worldsize.wings.hangs.judgement.recorder.recorder_verdict import recorder_findings
from worldsize.wings.hangs.judgement.stacks.rank_stacks import parse_stacks_line

GROUP = ("3", "mesh_tp")


def told(found, most=MOST_BYTES):
    lines = [dump_line(each, most) for each in found]
    assert all(len(line) <= most and line.isascii() and "\n" not in line for line in lines)
    return [parse_dump_line(line) for line in lines]


def calls(number, **last):
    return [call() for _ in range(number - 1)] + [waiting(**last)]


CASES = {
    "absent": dumps([call(), waiting()], [call()], [call(), waiting()], taken=2e9),
    "absent from a long run": dumps(calls(900), calls(900), [call() for _ in range(899)]),
    "waits in a call that was long ago": dumps(
        [call() for _ in range(3)] + [waiting() for _ in range(600)],
        [call() for _ in range(3)] + [waiting() for _ in range(600)],
        [call() for _ in range(3)],
    ),
    "another call": dumps(calls(300), calls(300, op="broadcast"), calls(300)),
    "another size": dumps(calls(3), calls(3, size=8), calls(3), backend="nccl"),
    "another type": dumps(calls(3), calls(3, dtype="Half"), calls(3), backend="nccl"),
    "another call, long ago": dumps(
        *(
            [call() for _ in range(5)] + [waiting(op)] + [waiting() for _ in range(400)]
            for op in ("all_reduce", "broadcast", "all_reduce")
        ),
        backend="nccl",
    ),
    "did not leave": dumps([call(), call()], [call(), waiting()], [call(), call()], backend="nccl"),
    "overwritten": dumps(calls(200), calls(200), calls(199), lost=900),
    "in a group": dumps(
        [call(), waiting(group=GROUP)],
        [call(), waiting(group=GROUP)],
        [call()],
        config={"3": {"name": "3", "desc": "mesh_tp", "ranks": "[0, 1, 2]"}},
    ),
    "point to point": dumps(
        [waiting("send 0->1", seq=1, is_p2p=True, p2p_seq=1)], [call(), waiting()], [call(), waiting()], backend="nccl"
    ),
    "moved on": dumps([call(), waiting()], [call()], taken=1.0),
    "healthy": dumps([call(), call()], [call(), call()]),
    "damaged": [dump(0, [waiting()]), Dump(1, (), {}, False, None, "is damaged"), dump(2, [])],
}


@pytest.mark.parametrize("case", CASES)
def test_the_verdict_is_that_of_the_files(case):
    found = CASES[case]
    for size in (len(found), 8):
        assert recorder_findings(told(found), size) == recorder_findings(found, size)
    assert [each._replace(entries=()) for each in told(found)] == [each._replace(entries=()) for each in found]


def test_a_rank_is_named_though_others_went_far_ahead_of_it():
    """They have left a hundred broadcasts that it has not entered; which was the first is no longer told."""
    ahead = [call("broadcast") for _ in range(300)] + [waiting()]
    found = dumps(ahead, ahead, [call("broadcast") for _ in range(150)])
    for each in (found, told(found)):
        (finding,) = recorder_findings(each, 3)
        assert (finding.kind, finding.ranks, finding.sequence, finding.waiting) == ("H1", (2,), 151, (0, 1))


def test_of_each_group_what_waits_and_the_newest_calls_are_kept():
    old = [call(group=GROUP)]
    mixed = [call() for _ in range(200)] + [waiting() for _ in range(500)]
    (found,) = told([dump(0, old + mixed)])
    numbers = [entry.seq for entry in found.entries if entry.group == "0"]
    assert [entry.seq for entry in found.entries if entry.group == "3"] == [1]
    assert numbers == [*range(197, 247), *range(651, 701)]


def test_a_line_is_short_though_calls_are_long():
    tensors = dump(0, [waiting()])
    entry = tensors.entries[0]._replace(sizes=((2, 3),) * 4000, dtypes=("Float", "Half") * 2000)
    (found,) = told([tensors._replace(entries=(entry,) * 300)])
    assert (found.entries[0].sizes, found.entries[0].dtypes) == (((24000,),), ("Float", "Half"))


def test_many_groups_leave_each_fewer_calls():
    groups = [("%d" % number, "mesh_%d" % number) for number in range(60)]
    (found,) = told([dump(0, [call(group=group) for _ in range(120) for group in groups])])
    assert len({entry.group for entry in found.entries}) == 60
    assert {entry.seq for entry in found.entries} <= set(range(100, 121)) and found.whole


def test_what_has_no_room_at_all_is_said():
    found = dump(3, [call(group=("g%d" % number, "x" * 250)) for number in range(1000)], taken=7.0)
    assert told([found], 5000) == [Dump(3, (), {}, False, 7.0, "has too many groups to report")]


def test_dumps_of_two_recorders_are_one():
    gloo, nccl = dump(1, [call(at=1), waiting(at=5)], taken=9.0), dump(1, [waiting(at=3)], backend="nccl", taken=8.0)
    found = merged_dumps(gloo, nccl)
    assert [entry.backend for entry in found.entries] == ["gloo", "nccl", "gloo"]
    assert (found.rank, found.whole, found.taken) == (1, True, 8.0)
    lost = Dump(1, (), {}, False, None, "is damaged")
    assert merged_dumps(lost, nccl) == merged_dumps(nccl, lost) == nccl


def test_neither_line_is_taken_for_the_other(all_reduce_line):
    line = dump_line(dump(0, [waiting()]))
    assert parse_stacks_line(line) is None and parse_dump_line(line) is not None
    assert parse_dump_line(all_reduce_line) is None and parse_stacks_line(all_reduce_line) is not None


@pytest.fixture
def all_reduce_line():
    return json.dumps([0, 17, 1.5, "py-spy", [], "S"])


WHOLE = json.loads(dump_line(dump(0, [call(), waiting()], config={"0": {"ranks": "[0, 1]"}})))
ANYTHING = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=20),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.sampled_from(["dump", "a"]), inner, max_size=3),
    max_leaves=10,
)


@given(st.sampled_from(["dump", "texts", "members", "calls"]), ANYTHING)
def test_anything_in_the_place_of_a_part(name, value):
    for changed in ({**WHOLE, name: value}, {**WHOLE, "calls": [*WHOLE["calls"], value]}, value):
        found = parse_dump_line(json.dumps(changed))
        if found is not None:
            recorder_findings([found], 4)


@given(st.text(max_size=60) | st.binary(max_size=60))
def test_any_line(line):
    assert parse_dump_line(line) is None


@pytest.mark.parametrize(
    "members", ["0-99999999", "5-2", "1-2-3", "-", "²", ",".join(["0-90000"] * 3), "0-99999999999999"]
)
def test_members_have_an_end(members):
    assert parse_dump_line(json.dumps({**WHOLE, "members": {"0": members}})) is None


def test_a_line_has_an_end():
    line = dump_line(dump(0, [waiting()]))
    assert parse_dump_line(line + " " * (1 << 20)) is None
    assert parse_dump_line(line[:-3]) is None and parse_dump_line("[" * 100_000) is None
