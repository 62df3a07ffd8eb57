"""Who keeps the others waiting, by lines that NCCL's watchdog wrote, in the words of several versions of PyTorch."""

import pytest

from worldsize.wings.hangs.judgement.watchdog_lines import watchdog_findings

CAUGHT = (
    "[rank%d]:[E808 04:21:41.1 ProcessGroupNCCL.cpp:616] [Rank %d] Watchdog caught collective operation timeout: "
    "WorkNCCL(SeqNum=%d, OpType=%s, NumelIn=1, NumelOut=1, Timeout(ms)=600000) ran for 600001 milliseconds before"
)
OLD = (
    "[PG 0 Rank %d] Exception (either an error or timeout) detected by watchdog at work: %d, last enqueued NCCL work: "
)
OLD += "%d, last completed NCCL work: %d."
NEW = "[PG ID 0 PG GUID 0(default_pg) Rank %d]  failure detected by watchdog at work sequence id: %d PG status: "
NEW += "last enqueued work: %d, last completed work: %d"
STARTED = "[PG ID 0 PG GUID 0(default_pg) Rank %d] at %d PG status: last enqueued work: %d, last started work: 7 "
STARTED += "(_ALLGATHER_BASE), last completed work: %d"
DUMPS = "[PG ID 0 PG GUID 0(default_pg) Rank %d] Received a dump signal due to a collective timeout from rank 0 and we "
DUMPS += "will try our best. Last enqueued NCCL work: %d, last completed NCCL work: %d.This is most likely caused by"


def caught(rank, number=7, kind="ALLREDUCE"):
    return CAUGHT % (rank, rank, number, kind)


def found(lines, size=None):
    return watchdog_findings(dict(enumerate(lines)), size or len(lines))


def named(lines, size=None):
    return [(each.kind, each.ranks) for each in found(lines, size) if each.kind]


@pytest.mark.parametrize("words", [OLD, NEW, STARTED])
def test_a_rank_that_has_made_fewer_calls(words):
    lines = [[caught(rank), words % (rank, 7, 7, 6)] for rank in (0, 1)] + [[DUMPS % (2, 6, 6)]]
    (finding,) = found(lines)
    assert (finding.kind, finding.ranks, finding.call, finding.sequence) == ("H1", (2,), "all_reduce", 7)
    assert finding.waiting == (0, 1)


def test_a_rank_that_is_behind_and_waits_itself_is_not_behind():
    lines = [[NEW % (0, 5, 9, 4)], [NEW % (1, 5, 9, 4)], [NEW % (2, 5, 5, 4)]]
    assert named(lines) == []


def test_a_silent_rank_where_all_others_were_given_up_in_one_call():
    lines = [[caught(0)], [], [caught(2)]]
    (finding,) = found(lines)
    assert (finding.kind, finding.ranks, finding.call, finding.sequence) == ("H1", (1,), "all_reduce", 7)
    assert "did not report" in finding.text


def test_another_call():
    lines = [[caught(0, 532341, "ALLGATHER")], [caught(1, 532339, "BROADCAST")], [caught(2, 532339, "BROADCAST")]]
    (finding,) = found(lines)
    assert (finding.kind, finding.ranks, finding.call, finding.sequence) == ("H2", (0,), "broadcast", 532339)
    assert finding.entered == "all_gather #532341"


@pytest.mark.parametrize(
    ("lines", "words"),
    [
        ([["epoch 1"], []], "it has not reported a timeout"),
        ([[caught(0)], [caught(1)]], "all ranks timed out in all_reduce #7"),
        ([[caught(0)], [], []], "2 against 1"),
        ([[caught(0)], [caught(1, 8)]], "1 against 1"),
        ([[caught(0)], [caught(1, 8)], [caught(2, 8)], []], "1 against 2, 1 unknown"),
        ([[NEW % (0, 7, 7, 6)], [DUMPS % (1, 6, 6)], [], []], "1 against 1, 2 unknown"),
    ],
)
def test_what_names_nobody(lines, words):
    assert named(lines) == []
    assert any(words in each.text for each in found(lines))


def test_only_a_ranks_own_words_count():
    assert named([[caught(1)], [caught(0)], []]) == []


def test_groups_are_told_apart():
    group = NEW.replace("PG GUID 0(default_pg)", "PG GUID 3(mesh_tp)")
    lines = [
        [NEW % (0, 7, 7, 6), group % (0, 2, 2, 2)],
        [NEW % (1, 7, 7, 6), group % (1, 3, 3, 2)],
        [DUMPS % (2, 6, 6)],
    ]
    kinds = {(each.kind, each.ranks, each.group) for each in found(lines)}
    assert kinds == {("H1", (2,), ""), ("H1", (0,), "group mesh_tp")}


def test_no_work_yet():
    lines = [[NEW % (0, 1, 1, -1)], [NEW % (1, 1, 1, -1)], [DUMPS % (2, -1, -1)]]
    assert named(lines) == [("H1", (2,))]


def test_ranks_that_are_none_are_left_out():
    assert watchdog_findings({7: [caught(7)]}, 2)[0].text == "it has not reported a timeout"
