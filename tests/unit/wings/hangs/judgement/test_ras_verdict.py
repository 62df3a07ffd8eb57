"""Who keeps the others waiting, by answers of NCCL's RAS: text and JSON, whole, broken off, and another job's."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from recorded_answers import (
    DEAD,
    HOST,
    INCOMPLETE,
    ONE_BEHIND,
    OTHER,
    TWO_BEHIND,
    as_json,
    as_text,
    communicator,
    missing,
    of_rank,
    processes,
)

from worldsize.wings.hangs.judgement.ras import ras_answer
from worldsize.wings.hangs.judgement.ras.ras_answer import read_answer
from worldsize.wings.hangs.judgement.ras.ras_verdict import RankProcess, ras_findings

BEHIND = communicator(*(of_rank(rank, AllReduce=6 if rank == 2 else 7) for rank in range(4)))


def only(text, ours=None):
    (finding,) = ras_findings(text, processes(4) if ours is None else ours)
    return finding


def names_nobody(text, words, ours=None):
    found = ras_findings(text, processes(4) if ours is None else ours)
    assert [each.kind for each in found] == [None] * len(found)
    assert any(words in each.text for each in found), found


def test_a_rank_that_is_behind():
    finding = only(as_json(BEHIND))
    assert (finding.kind, finding.ranks, finding.call, finding.sequence) == ("H1", (2,), "all_reduce", None)
    assert finding.waiting == (0, 1, 3)
    assert finding.text == "rank 2 launched all_reduce 6 times, 3 others more"


def test_ranks_of_a_communicator_are_joined_by_process():
    """Its rank 0 is the world's rank 3."""
    ranks = [
        dict(of_rank(3, AllReduce=1), rank=0),
        dict(of_rank(1, AllReduce=2), rank=1),
        dict(of_rank(0, AllReduce=2), rank=2),
    ]
    assert only(as_json(communicator(*ranks))).ranks == (3,)


def test_ranks_that_are_ahead_by_different_counts():
    counts = (27911, 27890, 27872, 27860)
    found = only(as_json(communicator(*(of_rank(rank, AllReduce=count) for rank, count in enumerate(counts)))))
    assert (found.ranks, found.waiting) == ((3,), (0, 1, 2))


def test_majorities():
    two = communicator(*(of_rank(rank, AllReduce=6 + rank // 2) for rank in range(4)))
    names_nobody(as_json(two), "2 against 2")
    one_ahead = communicator(*(of_rank(rank, AllReduce=6 + rank // 3) for rank in range(4)))
    names_nobody(as_json(one_ahead), "3 against 1")
    pair = communicator(of_rank(0, AllReduce=6), of_rank(1, AllReduce=7))
    assert only(as_json(pair), processes(2)).ranks == (0,)


def test_equal_counts_say_nothing():
    names_nobody(as_json(communicator(*(of_rank(rank, AllReduce=7) for rank in range(4)))), "equally many operations")
    names_nobody(as_json(), "names no process")


def test_another_operation():
    usual = [of_rank(rank, AllReduce=7, Broadcast=1) for rank in (0, 2, 3)]
    found = ras_findings(as_json(communicator(of_rank(1, AllReduce=6, Broadcast=2), *usual)), processes(4))
    assert [(each.kind, each.ranks) for each in found] == [("H2", (1,))]


def test_a_rank_that_waits_in_another_communicator():
    """Rank 2 is behind among all, since it waits for rank 3."""
    whole = communicator(*(of_rank(rank, AllReduce=7 if rank < 2 else 6) for rank in range(4)))
    pair = communicator(of_rank(2, AllReduce=5), of_rank(3, AllReduce=4))
    found = ras_findings(as_json(whole, pair), processes(4))
    assert {(each.kind, each.ranks) for each in found} == {("H1", (3,))}


def test_ranks_that_do_not_answer():
    found = only(as_json(communicator(*(of_rank(rank) for rank in (0, 1, 2)), lost=[missing(3)])))
    assert (found.kind, found.ranks, found.text) == ("H1", (3,), "rank 3 does not answer")
    found = only(as_json(communicator(*(of_rank(rank) for rank in (0, 1, 2)), lost=[missing(3, dead=True)])))
    assert (found.ranks, found.text) == ((3,), "rank 3 is considered dead")


def test_the_comma_that_2_28_9_lacks():
    whole = as_json(communicator(*(of_rank(rank) for rank in (0, 1, 2)), lost=[missing(3)]))
    broken = whole.replace(
        '"nvml_dev": 3,\n          "status": {\n            "unresponsive"',
        '"nvml_dev": 3\n          "status": {\n            "unresponsive"',
    )
    assert broken != whole
    assert read_answer(broken) == read_answer(whole)
    assert only(broken).ranks == (3,)


def test_no_other_comma_is_mended():
    broken = as_json(BEHIND).replace('"pid": 1000,', '"pid": 1000')
    names_nobody(broken, "is incomplete")


@pytest.mark.parametrize(
    ("warnings", "errors", "ranks", "words"),
    [
        (ONE_BEHIND, "", (3,), "rank 3 launched all_reduce 60 times, 7 others more"),
        (TWO_BEHIND, "", (0, 2), "ranks 0,2 launched all_reduce 6649 times, 6 others more"),
        ("", INCOMPLETE, (3,), "rank 3 does not answer"),
        ("", DEAD, (3,), "rank 3 is considered dead"),
    ],
)
def test_text(warnings, errors, ranks, words):
    finding = only(as_text(warnings, errors), processes(8))
    assert (finding.kind, finding.ranks, finding.text) == ("H1", ranks, words)


def test_text_that_only_counts_or_finds_nothing():
    counted = TWO_BEHIND.replace("  Rank 0 -- GPU 0 managed by process 1000 on node 10.0.0.1\n", "")
    names_nobody(as_text(counted), "some ranks have launched all_reduce 6649 times", processes(8))
    names_nobody(as_text(), "names no process")


def test_text_of_two_communicators_that_does_not_say_who_waits():
    both = ONE_BEHIND + TWO_BEHIND.replace("#0-0", "#0-1")
    names_nobody(as_text(both), "does not name the waiting ranks", processes(8))


@pytest.mark.parametrize("text", [as_json(BEHIND), as_text(ONE_BEHIND)])
def test_another_jobs_process(text):
    foreign = [each._replace(pid=each.pid + 5000) if each.rank > 1 else each for each in processes(8)]
    names_nobody(text, "which does not belong to this run", foreign)
    elsewhere = [each._replace(hosts=("10.9.9.9",)) for each in processes(8)]
    names_nobody(text, "which does not belong to this run", elsewhere)


def test_the_number_decides_where_no_host_is_known():
    assert only(as_json(BEHIND), [RankProcess(rank, 1000 + rank) for rank in range(4)]).ranks == (2,)
    twice = [RankProcess(rank, 1000 + rank % 3) for rank in range(4)]
    names_nobody(as_json(BEHIND), "not belong to this run", twice)


def test_the_same_number_on_two_hosts():
    ranks = [dict(of_rank(rank, AllReduce=6 if rank == 2 else 7), pid=50 + rank % 2) for rank in range(4)]
    ours = [RankProcess(rank, 50 + rank % 2, (HOST if rank < 2 else OTHER,)) for rank in range(4)]
    assert only(as_json(communicator(*ranks)), ours).ranks == (2,)


@pytest.mark.parametrize("text", [as_json(BEHIND), as_text(ONE_BEHIND)])
def test_half_an_answer(text):
    for share in (0, 0.1, 0.5, 0.8):
        names_nobody(text[: int(len(text) * share)], "the answer is")


@pytest.mark.parametrize(
    "text",
    ["", "\n", "OK\n", "HTTP/1.1 400 Bad Request\r\n\r\n", "{}", "[]", '{"communicators": 1, "ras": 0}', "{" * 10**6],
)
def test_what_is_no_answer(text):
    assert read_answer(text).fault
    names_nobody(text, "the answer")


@pytest.mark.parametrize("key", ["rank", "host", "pid"])
@pytest.mark.parametrize("value", [None, "x", [], 1.5, 10**30])
def test_fields_of_other_types(key, value):
    ranks = [of_rank(0), dict(of_rank(1), **{key: value})]
    ras_findings(as_json(communicator(*ranks)), processes(2))


def test_too_long_an_answer(monkeypatch):
    monkeypatch.setattr(ras_answer, "MOST_BYTES", 100)
    names_nobody(as_json(BEHIND), "is too long")


@given(st.sampled_from([as_json(BEHIND), as_text(ONE_BEHIND), as_text("", INCOMPLETE)]), st.data())
@settings(max_examples=100, deadline=None)
def test_damage_raises_nothing(text, data):
    at = data.draw(st.integers(0, len(text)))
    ras_findings(text[:at] + data.draw(st.text(max_size=5)) + text[at + data.draw(st.integers(0, 5)) :], processes(8))
