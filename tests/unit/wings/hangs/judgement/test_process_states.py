"""What the kernel and the agents know of ranks, as a witness."""

from worldsize.wings.hangs.judgement.process_states import RankState, process_findings

ALIVE, ENDED, STOPPED = RankState(None, "S"), RankState(0), RankState(None, "T")


def found(*states):
    (finding,) = process_findings(dict(enumerate(states)))
    return finding


def test_a_rank_that_has_ended_while_others_wait():
    finding = found(ALIVE, ENDED, ALIVE)
    assert (finding.kind, finding.ranks, finding.waiting, finding.certain) == ("H1", (1,), (0, 2), True)
    assert finding.text == "rank 1 has ended with code 0"
    assert found(ALIVE, ENDED, ENDED).text == "ranks 1-2 have ended with code 0"


def test_a_rank_that_is_stopped():
    finding = found(STOPPED, ALIVE, ENDED)
    assert (finding.kind, finding.ranks, finding.waiting, finding.certain) == ("H1", (0,), (1,), True)
    assert finding.text == "rank 0 is stopped"


def test_what_names_nobody():
    assert [found(*each).kind for each in ((ALIVE, ALIVE), (ENDED, ENDED), (RankState(1), ALIVE))] == [None] * 3
    assert found(RankState(None, "t"), RankState(None, "D")).text == (
        "in the kernel (state D): rank 1; held by a debugger: rank 0"
    )
