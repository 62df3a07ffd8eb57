"""The verdict on a hang, of what all witnesses say: when somebody is named, and in which words."""

import time

import pytest
from recorded_dumps import call, dumps, waiting

from worldsize.wings.hangs.judgement.finding import Finding, told
from worldsize.wings.hangs.judgement.process_states import RankState, process_findings
from worldsize.wings.hangs.judgement.recorder.recorder_verdict import recorder_findings
from worldsize.wings.hangs.judgement.verdict import ESTABLISHED, SUPPORTED, UNKNOWN, hang_verdict

PLACE = ("/home/u/train.py", 41, "Dataset.__getitem__")
NOON = time.mktime((2026, 6, 1, 14, 3, 11, 0, 0, -1))


def says(witness, kind="H1", ranks=(3,), call="", sequence=None, waiting=(0, 1, 2), place=None, **fields):
    text = fields.pop("text", "%s of %s" % (witness, list(ranks)))
    return Finding(witness, kind, ranks, call, sequence, waiting, place, text, **fields)


def verdict(*findings, **fields):
    return hang_verdict(findings, **fields)


@pytest.mark.parametrize("witness", ["stacks", "recorder"])
def test_one_of_these_is_enough(witness):
    found = verdict(says(witness))
    assert (found.standing, found.kind, found.ranks, found.witnesses) == (SUPPORTED, "H1", (3,), (witness,))


@pytest.mark.parametrize("witness", ["watchdog", "ras", "process"])
def test_one_of_these_is_not(witness):
    found = verdict(says(witness))
    assert (found.standing, found.kind, found.ranks, found.witnesses) == (UNKNOWN, None, (), (witness,))
    assert "one witness is not enough" in found.sentence and "[3]" in found.sentence


def test_two_that_agree():
    found = verdict(says("ras"), says("watchdog"))
    assert (found.standing, found.ranks, found.witnesses) == (ESTABLISHED, (3,), ("watchdog", "ras"))
    assert verdict(says("stacks"), says("recorder")).standing == ESTABLISHED


def test_two_that_do_not_agree():
    assert verdict(says("ras"), says("watchdog", ranks=(2,))).standing == UNKNOWN
    assert verdict(says("ras"), says("watchdog", "H2")).standing == UNKNOWN
    assert verdict(says("ras"), says("watchdog", ranks=(2, 3))).standing == UNKNOWN
    assert verdict(says("ras"), says("ras")).standing == UNKNOWN


def test_strong_ones_that_contradict_each_other():
    found = verdict(says("recorder"), says("stacks", ranks=(5,)))
    assert (found.standing, found.ranks) == (UNKNOWN, ())
    assert found.sentence == (
        "the witnesses do not agree: the stacks: stacks of [5]; the Flight Recorder: recorder of [3]"
    )
    assert verdict(says("stacks"), says("ras", ranks=(5,)), says("watchdog", ranks=(5,))).standing == UNKNOWN


def test_a_weak_one_does_not_unsay_a_strong_one():
    assert verdict(says("recorder"), says("ras", ranks=(5,))).ranks == (3,)


def test_kinds_in_their_order():
    found = verdict(says("recorder", "H3"), says("recorder", "H1", (1,)), says("recorder", "H2", (2,)))
    assert (found.kind, found.ranks) == ("H1", (1,))
    found = verdict(says("recorder", "H2"), says("stacks", "H1"))
    assert (found.kind, found.witnesses) == ("H1", ("stacks",))
    assert verdict(says("recorder", "H2"), says("ras", "H1")).kind == "H2"


def test_several_groups_with_a_hang_each():
    found = verdict(says("recorder", ranks=(1,), waiting=(0,), call="a"), says("recorder", ranks=(3,), waiting=(2,)))
    assert (found.ranks, found.waiting, found.call) == ((1, 3), (0, 2), "")


def test_what_the_kernel_has_seen_counts_as_two():
    stopped = process_findings({0: RankState(), 1: RankState(None, "T")})
    found = verdict(*stopped)
    assert (found.standing, found.kind, found.ranks) == (ESTABLISHED, "H1", (1,))
    assert found.sentence == "rank 1 is stopped and has not entered a collective call; 1 other waits there"
    assert verdict(*stopped, says("stacks", ranks=(0,), waiting=())).standing == UNKNOWN


def test_a_rank_that_has_ended():
    ended = process_findings({0: RankState(), 1: RankState(0), 2: RankState()})
    found = verdict(*ended, *recorder_findings(dumps([call(), waiting()], [call()], [call(), waiting()]), 3))
    assert (found.standing, found.witnesses) == (ESTABLISHED, ("process", "recorder"))
    assert found.sentence.startswith("rank 1 has ended with code 0 and has not entered all_reduce #2; 2 others have")


def test_nothing_at_all():
    found = verdict(told("recorder", "no dump can be read"), missing={"stacks": "ptrace is forbidden"})
    assert (found.standing, found.ranks, found.witnesses) == (UNKNOWN, (), ())
    assert found.missing == {
        "watchdog": "it was not queried",
        "process": "it was not queried",
        "stacks": "ptrace is forbidden",
        "recorder": "no dump can be read",
        "ras": "it was not queried",
    }
    assert found.sentence == "no rank differs from the others: no dump can be read"
    assert "the stacks: ptrace is forbidden" in verdict(missing={"stacks": "ptrace is forbidden"}).sentence


def test_the_sentence_of_a_rank_that_has_not_entered():
    recorder = says("recorder", "H1", (13,), "all_reduce", 288686, tuple(set(range(16)) - {13}), since=NOON)
    found = verdict(recorder, says("stacks", "H1", (13,), place=PLACE), nodes={13: 1})
    assert found.sentence == (
        "rank 13 (node 1) has not entered all_reduce #288686; 15 others have waited there since 14:03:11; "
        "it is in Dataset.__getitem__, train.py:41"
    )
    assert (found.since, found.place, found.sequence) == (NOON, PLACE, 288686)


def test_the_sentence_of_several_ranks():
    found = verdict(says("stacks", ranks=(4, 5, 6), place=("/a/b.py", 3, "")), nodes={4: 2, 5: 2, 6: 3})
    assert found.sentence == (
        "ranks 4-6 (nodes 2-3) have not entered a collective call; 3 others wait there; they are at b.py:3"
    )


def test_the_sentences_of_the_other_kinds():
    other = says("recorder", "H2", (1,), "all_reduce", 2, (0, 2), entered="broadcast", group="group 5")
    assert verdict(other, nodes={1: 0}).sentence == (
        "rank 1 (node 0) entered another call (broadcast) than all_reduce #2 of group 5; 2 others wait there"
    )
    left = says("recorder", "H3", (1,), "all_reduce", 2, (0,))
    assert verdict(left).sentence == "rank 1 did not leave all_reduce #2; 1 other has left it"


def test_a_place_of_a_witness_that_names_nobody_by_kind():
    place = told("stacks", "rank 3 is elsewhere")._replace(ranks=(3,), place=PLACE)
    assert verdict(says("recorder"), place).place == PLACE


def test_stacks_alone_show_another_call_where_the_recorder_does_not():
    shown = says("stacks", "H2", entered="barrier")
    assert verdict(shown).standing == SUPPORTED, "it was not heard"
    assert verdict(shown, told("recorder", "all have entered all_reduce #4")).standing == UNKNOWN
    assert verdict(shown, told("recorder", "3 against 1")._replace(ranks=(3,))).standing == SUPPORTED


def test_stacks_tell_which_other_call_it_is_that_a_rank_is_in():
    seen = told("stacks", "two groups")._replace(ranks=(3,), entered="recv", place=PLACE)
    found = verdict(says("recorder", call="all_reduce", sequence=4), seen)
    assert (found.kind, found.ranks, found.place) == ("H2", (3,), PLACE)
    assert found.sentence.startswith("rank 3 entered another call (recv) than all_reduce #4; 3 others wait there")
    assert verdict(says("recorder"), seen._replace(ranks=(2,))).kind == "H1", "it tells of another rank"
    assert verdict(says("process", state="has ended with code 0", certain=True), seen).kind == "H1"


def test_a_rank_in_a_call_that_others_have_left_has_not_entered_the_next_either():
    inside = says("stacks", "H3", call="all_gather_object", place=PLACE)
    found = verdict(says("recorder", call="barrier", sequence=12), inside)
    assert (found.kind, found.call, found.witnesses) == ("H3", "all_gather_object", ("stacks",))
    assert found.sentence.startswith("rank 3 did not leave all_gather_object; 3 others have left it; it is in")
    stopped = verdict(says("process", state="is stopped", certain=True), inside)
    assert (stopped.kind, stopped.standing) == ("H3", ESTABLISHED)
    assert stopped.sentence.startswith("rank 3 is stopped and did not leave all_gather_object")
