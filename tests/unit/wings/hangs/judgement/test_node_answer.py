"""What a node's collector writes, read again: each line by its form, and nothing raised for any text."""

from hypothesis import given
from hypothesis import strategies as st
from recorded_dumps import call, dump, waiting

from worldsize.wings.hangs.judgement import node_answer
from worldsize.wings.hangs.judgement.node_answer import parse_answer
from worldsize.wings.hangs.judgement.recorder.dump_lines import dump_line, parse_dump_line
from worldsize.wings.hangs.judgement.stacks.rank_stacks import PROC, RankStacks, parse_stacks_line, stacks_line

STACKS = [RankStacks(rank, 100 + rank, 5.0, PROC, (), "S") for rank in range(2)]
DUMPS = [dump(rank, [call(), waiting()]) for rank in (1, 0)]
LINES = [*map(stacks_line, STACKS), *map(dump_line, DUMPS)]


def test_each_line_is_read_as_what_it_is():
    found = parse_answer("\n".join(LINES) + "\n")
    assert list(found.stacks) == STACKS
    assert [each.rank for each in found.dumps] == [0, 1]
    assert [len(each.entries) for each in found.dumps] == [2, 2]


def test_a_line_of_one_is_none_of_the_other():
    assert parse_dump_line(LINES[0]) is None and parse_stacks_line(LINES[2]) is None


def test_the_answers_of_several_nodes():
    text = "\n".join([*LINES, dump_line(dump(0, [call()]))])
    found = parse_answer(text)
    assert [len(each.entries) for each in found.dumps] == [1, 2], "the last one of a rank"


def test_what_is_cut_short_is_left_out():
    text = "\n".join(LINES)
    found = parse_answer(text, len(LINES[0]) + len(LINES[1]) + len(LINES[2]))
    assert (list(found.stacks), found.dumps) == (STACKS, ())
    assert parse_answer("\n".join(["", "Traceback", *LINES, "{", "[", "{}", "[]", '{"ras": 1}'])) == parse_answer(text)


def test_lines_have_an_end(monkeypatch):
    monkeypatch.setattr(node_answer, "_MOST_LINES", 3)
    found = parse_answer("\n".join(LINES))
    assert (len(found.stacks), len(found.dumps)) == (2, 1)


@given(st.text(st.sampled_from('[]{}":,0123456789\n ras dump')))
def test_any_text(text):
    parse_answer(text)
