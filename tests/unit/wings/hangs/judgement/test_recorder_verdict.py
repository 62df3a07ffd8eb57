"""Who keeps the others waiting, by dumps: as torch 2.13 wrote them in such a hang, with gloo unless it says nccl."""

import pytest
from recorded_dumps import CREATED, call, dump, dumps, waiting

from worldsize.wings.hangs.judgement.recorder.flight_recorder import Dump
from worldsize.wings.hangs.judgement.recorder.recorder_verdict import recorder_findings

LEFT, RIGHT = ("1", "undefined"), ("2", "undefined")


def named(found, size=None):
    return [(each.kind, each.ranks) for each in recorder_findings(found, size or len(found)) if each.kind]


def text_of(found, size=None):
    (finding,) = recorder_findings(found, size or len(found))
    return finding.text


@pytest.mark.parametrize("backend", ["gloo", "nccl"])
def test_a_rank_that_never_comes(backend):
    there, absent = [call(), call(), waiting()], [call(), call()]
    (found,) = recorder_findings(dumps(there, absent, there, backend=backend), 3)
    assert (found.kind, found.ranks, found.call, found.sequence) == ("H1", (1,), "all_reduce", 3)
    assert (found.waiting, found.since, found.place) == ((0, 2), CREATED + 2, None)
    assert found.text == "rank 1 did not enter all_reduce #3, ranks 0,2 did"


def test_of_two_ranks_the_one_that_did_not_enter():
    assert named(dumps([call(), waiting()], [call()])) == [("H1", (1,))]


def test_the_first_call_of_all():
    assert named(dumps([waiting()], [waiting()], [])) == [("H1", (2,))]


def test_since_is_when_the_last_one_came():
    found = recorder_findings(dumps([waiting(at=7)], [waiting(at=9)], []), 3)
    assert found[0].since == CREATED + 9


def test_ranks_that_went_further_without_waiting_are_no_evidence():
    found = dumps([call(), call("broadcast")], [call(), call("broadcast")], [call()])
    assert named(found) == []
    assert "continued" in text_of(found)


def test_several_behind_by_different_counts():
    """Rank 2 waits in its third call; only rank 3 waits for nobody."""
    ahead = [call(), call(seq=2, ended=False), waiting()]
    assert named(dumps(ahead, ahead, [call(), waiting()], [call()])) == [("H1", (3,))]


def test_two_against_two_names_nobody():
    found = dumps([call(), waiting()], [call(), waiting()], [call()], [call()])
    assert named(found) == []
    assert text_of(found) == "ranks 2-3 did not enter all_reduce #2, ranks 0-1 did: 2 against 2"


def test_one_ahead_of_three_names_nobody():
    assert named(dumps([call(), waiting()], [call()], [call()], [call()])) == []


@pytest.mark.parametrize("backend", ["gloo", "nccl"])
def test_another_call(backend):
    usual, odd = [call(), waiting()], [call(), waiting("broadcast")]
    (found,) = recorder_findings(dumps(usual, odd, usual, usual, backend=backend), 4)
    assert (found.kind, found.ranks, found.call, found.sequence) == ("H2", (1,), "all_reduce", 2)
    assert (found.entered, found.waiting) == ("broadcast", (0, 2, 3))
    assert found.place == ("/home/u/train.py", 22, "<module>")


def test_the_first_rank_is_not_assumed_to_be_right():
    usual = [call(), waiting()]
    assert named(dumps([call(), waiting("broadcast")], usual, usual)) == [("H2", (0,))]


def test_other_calls_without_a_majority():
    usual, odd = [call(), waiting()], [call(), waiting("broadcast")]
    assert text_of(dumps(usual, odd, usual, odd)).endswith(": 2 against 2")
    assert text_of(dumps(usual, odd)).endswith(": 1 against 1")
    assert named(dumps(usual, odd, usual, odd)) == named(dumps(usual, odd)) == []


def test_another_size_and_another_type():
    usual = [call(), waiting()]
    (found,) = recorder_findings(dumps(usual, usual, [call(), waiting(size=8)], backend="nccl"), 3)
    assert (found.kind, found.ranks, found.entered) == ("H2", (2,), "all_reduce of 8 elements instead of 4")
    (found,) = recorder_findings(dumps(usual, usual, [call(), waiting(dtype="Half")], backend="nccl"), 3)
    assert found.entered == "all_reduce of Half instead of Float"


def test_sizes_that_differ_by_right():
    found = dumps(*([call(), waiting("all_gather", size)] for size in (4, 4, 8)), backend="nccl")
    assert named(found) == []
    assert text_of(found) == "all have entered all_gather #2, and ranks 0-2 did not leave it"


def test_calls_that_have_ended_everywhere_are_no_evidence():
    differ = [call("all_reduce"), call()], [call("broadcast"), call()], [call("all_reduce"), call()]
    assert named(dumps(*differ)) == []


def test_the_call_that_differs_counts_and_not_what_follows():
    """Rank 1 has left its broadcast, and waits in the next call."""
    usual = [call(), waiting()]
    assert named(dumps(usual, [call(), call("broadcast"), waiting()], usual)) == [("H2", (1,))]


def test_a_rank_that_did_not_leave():
    (found,) = recorder_findings(dumps([call(), call()], [call(), waiting()], [call(), call()], backend="nccl"), 3)
    assert (found.kind, found.ranks, found.sequence, found.waiting) == ("H3", (1,), 2, (0, 2))


def test_a_broadcast_is_left_by_some_first():
    found = dumps([call(), call("broadcast")], *([call(), waiting("broadcast")],) * 2, backend="nccl")
    assert named(found) == []


def test_all_in_one_call_names_nobody():
    found = dumps(*([call(), waiting()],) * 3)
    assert text_of(found) == "all have entered all_reduce #2, and ranks 0-2 did not leave it"


def test_a_group_that_waits_for_a_rank_of_another_group():
    """Ranks 0 and 1 wait for 2 and 3 in the group of all; 2 waits for 3 in a group of both."""
    left = [call(group=LEFT), call(group=LEFT), waiting()]
    found = dumps(left, left, [call(group=RIGHT), waiting(group=RIGHT)], [call(group=RIGHT)])
    (finding,) = recorder_findings(found, 4)
    assert (finding.kind, finding.ranks) == ("H1", (3,))
    assert {*finding.waiting} <= {0, 1, 2}
    assert "wait for rank 3 elsewhere" in finding.text


def test_a_rank_that_has_made_no_call_in_a_group_whose_ranks_nobody_tells():
    """Rank 2 waits in its group alone; so it is rank 3 that waits for nobody."""
    left = [call(), call(group=LEFT), waiting()]
    found = dumps(left, left, [call(), waiting(group=RIGHT)], [call()])
    assert [(each.ranks, each.sequence) for each in recorder_findings(found, 4)] == [((3,), 2)]


def test_groups_that_wait_for_each_other_name_nobody():
    """Each of both has entered a call that the other has not."""
    config = {name: {"ranks": "[0, 1]"} for name in "12"}
    found = dumps([waiting(group=LEFT)], [waiting(group=RIGHT)], config=config)
    assert named(found) == []
    assert all("wait elsewhere" in each.text for each in recorder_findings(found, 2))


def test_a_rank_that_waits_for_a_message_is_not_named():
    message = waiting("recv 0<-1", is_p2p=True, p2p_seq=1)
    there = [call(), waiting()]
    assert named(dumps(there, there, there, [call(), message], backend="nccl")) == []


def test_groups_of_the_same_name_but_other_ranks():
    low, high = ({"5": {"ranks": ranks}} for ranks in ("[0, 1]", "[2, 3]"))
    mine = ("5", "mesh_tp")
    found = [
        dump(rank, calls, config=config)
        for rank, (calls, config) in enumerate(
            [
                ([call(group=mine)] * 2, low),
                ([call(group=mine)] * 2, low),
                ([call(group=mine), waiting(group=mine)], high),
                ([call(group=mine)], high),
            ]
        )
    ]
    (finding,) = recorder_findings(found, 4)
    assert (finding.ranks, finding.waiting, finding.group) == ((3,), (2,), "group 5 (mesh_tp)")


def test_two_backends_count_for_themselves():
    of_gloo, of_nccl = dumps([call(), waiting()], [call()]), dumps([call()], [call()], backend="nccl")
    both = [one._replace(entries=one.entries + two.entries) for one, two in zip(of_gloo, of_nccl, strict=True)]
    assert named(both) == [("H1", (1,))]


def test_a_ring_that_has_lost_its_oldest_entries():
    ahead = [call(seq=number) for number in (7, 8)] + [waiting(seq=9)]
    behind = [call(seq=number) for number in (6, 7, 8)]
    found = [dump(0, ahead, lost=6), dump(1, ahead, lost=6), dump(2, behind, lost=5)]
    assert named(found) == [("H1", (2,))]
    apart = [dump(0, [waiting(seq=40)], lost=39), dump(1, [waiting(seq=40)], lost=39), dump(2, behind, lost=5)]
    (finding,) = recorder_findings(apart, 3)
    assert (finding.ranks, finding.call, finding.sequence) == ((2,), "", 9)


def test_a_rank_whose_entries_are_all_overwritten_is_unknown():
    there = [call(), waiting()]
    other = dump(2, [call(group=LEFT)], lost=50)
    assert named([*dumps(there, there), other]) == []


def test_a_missing_dump_names_nobody():
    there = [call(), waiting()]
    found = dumps(there, there, there)
    assert named(found, 4) == []
    assert recorder_findings(found, 4)[0].text.endswith("; the dump of rank 3 is missing")


def test_a_missing_dump_may_belong_to_either_side():
    there, absent = [call(), waiting()], [call()]
    assert named(dumps(there, absent, there), 4) == []
    assert named(dumps(there, absent, there, there), 5) == [("H1", (1,))]


def test_damaged_dumps_are_told():
    found = [*dumps([call(), waiting()], [call(), waiting()]), Dump(2, (), {}, False, None, "is damaged")]
    assert recorder_findings(found, 3)[0].text.endswith("; the dump of rank 2 is damaged")
    assert text_of([Dump(0, (), {}, False, None, "is damaged")], 2).startswith("no dump can be read")


def test_dumps_that_were_taken_while_ranks_went_on():
    found = [dump(0, [call(), waiting()], CREATED + 60), dump(1, [call()], CREATED + 0.5)]
    assert named(found) == []
    assert "continued" in text_of(found)
    assert named([each._replace(taken=CREATED + 60) for each in found]) == [("H1", (1,))]


def test_calls_that_were_coalesced_share_a_number():
    both = [call("_all_gather_base", seq=2, ended=False), call("_all_gather_base", seq=2, ended=False)]
    odd = both[:1]
    found = dumps(*([call(), *each] for each in (both, both, odd)), backend="nccl")
    assert named(found) == [("H2", (2,))]


def test_many_groups_and_ranks_take_no_time():
    names = [(str(number), "undefined") for number in range(300)]
    calls = [call(group=name) for name in names] + [waiting(group=name) for name in names]
    assert named(dumps(*[calls] * 8)) == []


def test_two_groups_of_all_ranks_in_another_order():
    usual, odd = [call(), waiting(group=LEFT)], [call(), waiting(group=RIGHT)]
    earlier = [call(group=LEFT), call(group=RIGHT)]
    (found,) = recorder_findings(dumps(*([*earlier, *each] for each in (usual, odd, usual, usual))), 4)
    assert (found.kind, found.ranks, found.waiting) == ("H2", (1,), (0, 2, 3))
    assert (found.call, found.sequence, found.group) == ("all_reduce", 2, "group 1")
    assert found.entered == "all_reduce #2 of group 2"
    assert named(dumps(*([*earlier, *each] for each in (usual, odd, usual, odd)))) == []


def test_one_ahead_of_three_is_told_for_others_to_confirm():
    (found,) = recorder_findings(dumps([call(), waiting()], [call()], [call()], [call()]), 4)
    assert (found.kind, found.ranks, found.entered) == (None, (0,), "all_reduce")
