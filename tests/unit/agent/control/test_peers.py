"""A head and its nodes on real connections, in this process: who is silent, who is lost, who has stood still.

One clock for all of them, which the tests move.
"""

from __future__ import annotations

import selectors
import socket
from collections.abc import Callable, Iterator

import pytest
from clocks import Clock

from worldsize.agent.control import peers
from worldsize.agent.control.endpoint import listen
from worldsize.agent.control.peers import HeadPeers, MemberPeers
from worldsize.agent.control.ports import PortReservation
from worldsize.agent.control.rendezvous import HeadResources, Rendezvous
from worldsize.agent.control.solo_peers import LeaderTracker, Peers
from worldsize.agent.outcome import verdict
from worldsize.agent.outcome.verdict import PeerVerdict, Verdict
from worldsize.agent.supervision.deadlines import Suspension, is_silence_excused
from worldsize.plan.plan import Plan, node_major_layout
from worldsize.plan.rank_variables import Host
from worldsize.state.records import Failure, Reason

SILENCE = 9.0
BEAT = 1.0
TOKEN = "5ecre7" * 5


class Cluster:
    """Nodes 0 (the head) to `nodes` - 1, all of which have joined if they `meet`. `verdicts`: what each has heard."""

    def __init__(self, directory: str, nodes: int, meet: bool = True, network: bool = False) -> None:
        self.clock = Clock()
        self.selector = selectors.DefaultSelector()
        endpoint = directory + "/control"
        self.listener = socket.create_server(("127.0.0.1", 0)) if network else listen(endpoint, 10)
        self.listener.setblocking(False)
        reached = self.listener.getsockname() if network else endpoint
        rendezvous = Rendezvous("127.0.0.1", 0, 0, TOKEN)
        resources = HeadResources(rendezvous, PortReservation(), self.listener)
        self.head = HeadPeers(Host("n0", 1), resources, endpoint, nodes, self.selector, self.clock)
        self.members = [
            MemberPeers(Host("n%d" % rank, 1), rank, rendezvous, reached, self.selector, self.clock)
            for rank in range(1, nodes)
        ]
        self.all: list[Peers] = [self.head, *self.members]
        self.verdicts: list[list[PeerVerdict]] = [[] for _ in self.all]
        self.closed: set[int] = set()
        while meet and None in [each.gather_hosts() for each in self.all]:
            self.turn()

    def turn(self) -> None:
        """All that has been sent arrives and is acted on."""
        while found := self.selector.select(0):
            for key, _ in found:
                if key.fileobj.fileno() >= 0:  # type: ignore[union-attr]
                    key.data()
        for each, heard in zip(self.all, self.verdicts, strict=True):
            heard += each.take_verdicts()

    def beat(self, *nodes: int) -> None:
        """These nodes give a sign of life, and look for those that give none."""
        for rank in nodes:
            self.verdicts[rank] += self.all[rank].send_heartbeat(SILENCE)
        self.turn()

    def pass_time(self, seconds: float, *nodes: int) -> None:
        """These nodes go on."""
        for _ in range(round(seconds / BEAT)):
            self.clock.now += BEAT
            self.beat(*nodes)

    def failures(self, rank: int) -> list[str]:
        return [heard.verdict.failure.message for heard in self.verdicts[rank] if heard.verdict.failure]

    def close(self, rank: int) -> None:
        if rank not in self.closed:
            self.closed.add(rank)
            self.all[rank].close(None)


@pytest.fixture
def cluster(tmp_path) -> Iterator[Callable[[int], Cluster]]:
    made: list[Cluster] = []

    def make(nodes: int, meet: bool = True, network: bool = False) -> Cluster:
        made.append(Cluster(str(tmp_path), nodes, meet, network))
        return made[-1]

    yield make
    for each in made:
        for rank in range(len(each.all)):
            each.close(rank)
        each.selector.close()


# clocks


def test_the_difference_of_clocks_is_measured_as_nodes_of_several_machines_meet(cluster) -> None:
    run = cluster(3, network=True)
    assert run.head.clock is None
    for member in run.members:
        assert member.clock is not None and abs(member.clock.seconds) <= member.clock.uncertainty + 0.001
        assert member.clock.uncertainty < 30.0


def test_nodes_of_one_machine_have_one_clock(cluster) -> None:
    assert [each.clock for each in cluster(2).all] == [None, None]


# preparation


def test_nodes_go_on_to_each_part_of_their_preparation_together(cluster) -> None:
    run = cluster(3)
    for part in (1, 2):
        for _ in range(2):
            assert [each.report_ready(part) for each in run.all[:2]] == [False, False]
            run.turn()
        run.all[2].report_ready(part)
        run.turn()
        assert run.head.report_ready(part)
        run.turn()
        assert [each.report_ready(part) for each in run.all] == [True, True, True]
        assert not run.head.report_ready(part + 1)


# silence


def test_nodes_that_go_on_are_never_lost(cluster) -> None:
    run = cluster(3)
    run.pass_time(10 * SILENCE, 0, 1, 2)
    assert run.verdicts == [[], [], []]


def test_a_node_that_gives_no_sign_of_life_is_lost_after_the_silence_and_no_sooner(cluster) -> None:
    run = cluster(3)
    run.pass_time(SILENCE, 0, 1)
    assert run.verdicts == [[], [], []]
    run.pass_time(BEAT, 0, 1)
    (lost,) = run.verdicts[0]
    assert lost.verdict.why == verdict.NODE_LOST and lost.verdict.failure.node_rank == 2
    assert "its agent has sent nothing for 9 s" in lost.verdict.failure.message
    assert run.verdicts[1] == []


def test_a_node_is_lost_once(cluster) -> None:
    run = cluster(3)
    run.pass_time(4 * SILENCE, 0, 1)
    assert len(run.verdicts[0]) == 1


def test_a_head_that_gives_no_sign_of_life_is_lost_to_every_node(cluster) -> None:
    run = cluster(3)
    run.pass_time(SILENCE, 1, 2)
    assert run.verdicts == [[], [], []]
    run.pass_time(BEAT, 1, 2)
    for heard in run.verdicts[1:]:
        (lost,) = heard
        assert lost.verdict.why == verdict.HEAD_LOST and lost.verdict.failure.node_rank == 0
        assert "the head's agent has sent nothing for 9 s" in lost.verdict.failure.message
    assert all(each.may_end(late=False) for each in run.members), "nobody is there to wait for"
    assert all(each.has_joined for each in run.members), "nor to connect to again"


def test_any_message_is_a_sign_of_life(cluster) -> None:
    run = cluster(2)
    for _ in range(4):
        run.pass_time(SILENCE - BEAT, 0)
        run.members[0].report_ended([1])
        run.turn()
    assert run.verdicts == [[], []]


def test_who_had_all_of_them_stand_still_blames_nobody(cluster) -> None:
    """The run was paused as a whole: each has not run for longer than the silence, and says so to itself first."""
    run = cluster(3)
    run.clock.now += 3 * SILENCE
    for each in run.all:
        each.reset_silence()
    run.beat(0, 1, 2)
    run.pass_time(SILENCE, 0, 1, 2)
    assert run.verdicts == [[], [], []]


def test_who_is_silent_after_a_pause_is_lost_all_the_same(cluster) -> None:
    run = cluster(2)
    run.clock.now += 3 * SILENCE
    run.head.reset_silence()
    run.pass_time(SILENCE, 0)
    assert run.verdicts[0] == []
    run.pass_time(BEAT, 0)
    assert "has sent nothing" in run.failures(0)[0]


@pytest.mark.parametrize("pause", [BEAT, SILENCE / 2, SILENCE - BEAT, SILENCE, 1.5 * SILENCE, 100 * SILENCE])
@pytest.mark.parametrize("first", [0, 1])
def test_a_whole_run_that_is_paused_loses_nobody_whoever_goes_on_first(cluster, pause: float, first: int) -> None:
    """As supervisors do: each notices how long it has not run before it looks for the others."""
    run = cluster(2)
    suspensions = [Suspension(run.clock.now, SILENCE - BEAT) for _ in run.all]

    def go_on(rank: int) -> None:
        if is_silence_excused(suspensions[rank].notice(run.clock.now), SILENCE):
            run.all[rank].reset_silence()
        run.beat(rank)

    for rank in (0, 1):
        go_on(rank)
    run.clock.now += pause
    go_on(first)
    for _ in range(20):
        run.clock.now += BEAT / 2
        go_on(1 - first)
        run.clock.now += BEAT / 2
        go_on(first)
    assert run.verdicts == [[], []]


# lost, spared, proposed


def test_a_lost_connection_is_a_lost_node_at_once(cluster) -> None:
    run = cluster(3)
    run.close(2)
    run.turn()
    assert run.failures(0) == ["node 2 (n2): its agent has ended (connection lost)"]


def test_a_head_whose_connection_is_lost_is_lost_at_once_unless_it_has_said_the_end(cluster) -> None:
    run = cluster(3)
    run.head._channel.drop(1)
    run.turn()
    assert "the head's agent has ended (connection lost)" in run.failures(1)[0]
    run.close(0)
    run.turn()
    assert run.verdicts[2] == [] and run.members[1].may_end(late=False)


@pytest.mark.parametrize("expected", [True, False])
def test_nodes_that_are_on_their_way_hear_what_was_decided_before(cluster, expected: bool) -> None:
    run = cluster(3, meet=False)
    run.head.expects_all = expected
    early = verdict.Verdict(verdict.CANCEL, None)
    run.head.send_verdict(early)
    assert run.head.may_end(late=False) == (not expected) and run.head.may_end(late=True)
    while not all(run.verdicts[1:]):
        assert [each.gather_hosts() for each in run.members] == [None, None]
        run.turn()
    assert run.verdicts[1:] == [[PeerVerdict(early, final=True)]] * 2 and not run.head.may_end(late=False)
    for member in run.members:
        member.report_done()
    run.turn()
    assert run.head.may_end(late=False)


def test_who_is_done_may_fall_silent_and_go(cluster) -> None:
    run = cluster(3)
    run.members[1].report_done()
    run.turn()
    run.close(2)
    run.pass_time(3 * SILENCE, 0, 1)
    assert run.verdicts[0] == []
    assert not run.head.may_end(late=False) and run.head.may_end(late=True)
    run.members[0].report_done()
    run.turn()
    assert run.head.may_end(late=False)


def test_spare_nodes_may_be_lost_and_no_more(cluster) -> None:
    run = cluster(4)
    run.head.spare_nodes = 1
    run.pass_time(SILENCE + BEAT, 0, 1, 2)
    assert (run.verdicts[0], run.head.lost_nodes) == ([], (3,))
    run.pass_time(SILENCE + BEAT, 0, 1)
    assert len(run.verdicts[0]) == 1 and run.verdicts[0][0].verdict.failure.node_rank == 2
    assert run.head.lost_nodes == (3,)


def test_nodes_propose_and_the_head_decides(cluster) -> None:
    run = cluster(3)
    failed = Verdict(verdict.FAILURE, Failure(Reason.EXIT_CODE, "rank 1 failed", 1, 1, 7, 5.0))
    run.members[0].send_verdict(failed)
    run.turn()
    assert run.verdicts == [[PeerVerdict(failed)], [], []]
    run.head.send_verdict(failed)
    run.turn()
    assert run.verdicts[1:] == [[PeerVerdict(failed, final=True)]] * 2


# standing still


def test_nobody_looks_for_a_standstill_before_a_rank_has_ended(cluster) -> None:
    run = cluster(3)
    run.pass_time(2 * BEAT, 0, 1, 2)
    assert [each.check_standstill for each in run.all] == [False] * 3


@pytest.mark.parametrize("ended", [0, 1, 2])
def test_all_look_for_one_once_a_rank_has_ended_on_any_node(cluster, ended: int) -> None:
    """Each supervisor says so of its own ranks; a node tells for how long it has stood still, or that it is done."""
    run = cluster(3)
    run.all[ended].check_standstill = True
    if ended:
        run.members[ended - 1].share_standstill(([ended], 0.0))
        run.turn()
    run.beat(0)
    assert [each.check_standstill for each in run.all] == [True] * 3


def test_a_node_all_of_whose_ranks_have_ended_has_all_look(cluster) -> None:
    run = cluster(3)
    run.members[0].report_done()
    run.turn()
    run.beat(0)
    assert run.head.check_standstill and run.members[1].check_standstill


def test_the_head_judges_once_every_node_that_is_left_has_told(cluster) -> None:
    run = cluster(4)
    run.members[2].report_done()
    run.turn()
    own = ([0], 5.0)
    assert run.head.share_standstill(own) == []
    run.members[0].share_standstill(([1], 4.0))
    run.turn()
    assert run.head.share_standstill(own) == [], "node 2 has not said so yet"
    for member, seconds in zip(run.members[:2], (6.0, 7.0), strict=True):
        assert member.share_standstill(([member._node_rank], seconds)) == [], "the head judges"
    run.turn()
    assert run.head.share_standstill(own) == [own, ([1], 6.0), ([2], 7.0)]


def test_each_word_of_a_standstill_counts_once(cluster) -> None:
    """Whoever does not repeat it may have gone on since."""
    run = cluster(2)
    run.members[0].share_standstill(([1], 6.0))
    run.turn()
    assert len(run.head.share_standstill(([0], 5.0))) == 2
    assert run.head.share_standstill(([0], 6.0)) == []


def test_a_lost_node_is_not_waited_for(cluster) -> None:
    run = cluster(3)
    run.head.spare_nodes = 1
    run.close(2)
    run.members[0].share_standstill(([1], 6.0))
    run.turn()
    assert run.head.share_standstill(([0], 5.0)) == [([0], 5.0), ([1], 6.0)]


# the end with the leaders


def test_ends_on_every_node_count_at_the_moment_at_which_the_head_hears_of_them(cluster) -> None:
    run = cluster(2)
    nodes = node_major_layout(2, 1)
    plan = Plan("r", "t", "local", 1.0, 0, nodes, ("true",), {}, leaders=(0, 1))
    run.head.leader_tracker = LeaderTracker(plan)
    run.head.report_ended([0])
    run.clock.now += 5.0
    assert run.head.leader_tracker.complete_at is None
    run.members[0].report_ended([1])
    run.turn()
    assert run.head.leader_tracker.complete_at == run.clock.now


# joining


def test_who_is_missing_is_named(tmp_path) -> None:
    clock, selector = Clock(), selectors.DefaultSelector()
    endpoint = str(tmp_path / "control")
    rendezvous = Rendezvous("127.0.0.1", 0, 0, TOKEN)
    resources = HeadResources(rendezvous, PortReservation(), listen(endpoint, 10))
    head = HeadPeers(Host("n0", 1), resources, endpoint, 3, selector, clock)
    assert head.missing_text(" within 3 s") == (
        "2 of 3 nodes did not join the head (n0) at %s within 3 s: 1, 2" % endpoint
    )
    head.close(None)
    member = MemberPeers(Host("n1", 1), 1, rendezvous, endpoint, selector, clock)
    for _ in range(peers.REFUSALS):
        assert member.gather_hosts() is None and member.take_verdicts() == [] and member.needs_quick_retry
    member.gather_hosts()
    (lost,) = member.take_verdicts()
    assert lost.verdict.why == verdict.HEAD_LOST and "connection refused" in lost.verdict.failure.message
    assert member.has_joined, "it never will: nobody tries any more"
    assert member.missing_text().startswith("node 1 (n1) could not join the head at %s: " % endpoint)
    selector.close()
