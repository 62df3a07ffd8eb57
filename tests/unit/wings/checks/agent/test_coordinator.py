"""The head of a check leads the nodes through the stages, and goes on without those that are late."""

import time

from worldsize.state.check_rows import BAD, OK, UNKNOWN, WARNING, CheckRow
from worldsize.wings.checks.agent.cluster import CheckedNode, Cluster
from worldsize.wings.checks.agent.coordinator import PROBES, Coordinator, notices_of
from worldsize.wings.checks.agent.selection import Selection
from worldsize.wings.checks.agent.stage_table import STAGES

LIMIT = 100.0


class StandInStage:
    """Orders every node, and gives one row that counts the answers."""

    limit = 10.0

    def __init__(self, name, orders=True, error=None):
        self.name = name
        self._orders = orders
        self._error = error

    def orders(self, cluster):
        return {node.node_rank: {"of": self.name} for node in cluster.nodes} if self._orders else {}

    def judge(self, cluster):
        if self._error is not None:
            raise self._error
        said = sum(self.name in node.answers for node in cluster.nodes)
        return [CheckRow("", entry_of(self.name).ids[0], self.name, "%d of %d" % (said, len(cluster.nodes)), OK)]


def entry_of(module):
    return next(entry for entry in STAGES if entry.module == module)


class Check:
    """A coordinator of so many nodes with a clock of its own; `sent` holds the orders."""

    def __init__(self, nodes, only=("same.versions",), stages=(), limit=LIMIT):
        self.sent = []
        self.now = 0.0
        self.stages = {stage.name: stage for stage in stages}
        cluster = Cluster(tuple(CheckedNode(rank, "n%d" % rank, "n%d" % rank) for rank in range(nodes)))
        selection = Selection("full", only)
        send = lambda rank, message: self.sent.append((rank, message))  # noqa: E731
        self.it = Coordinator(cluster, selection, self.load, send, self.now, limit)

    def load(self, module):
        return self.stages.get(module) or StandInStage(module, orders=False)

    def hear_probes(self, *ranks, rows=(), facts=None):
        for rank in ranks:
            said = {"rows": [row._asdict() for row in rows], "facts": facts or {}, "address": "10.0.0.1"}
            self.it.hear(rank, {"stage": PROBES, **said}, self.now)

    def hear(self, stage, *ranks):
        for rank in ranks:
            self.it.hear(rank, {"stage": stage, "answer": {"rank": rank}}, self.now)

    def let_pass(self):
        self.now = self.it.deadline()
        self.it.tick(self.now)

    def found(self):
        return [(row.node, row.id, row.value, row.verdict) for row in self.it.rows]


def test_a_check_goes_from_the_probes_to_the_stages_and_ends():
    check = Check(2, ("same.versions", "files.share", "files.space"), [StandInStage("share")])
    full = CheckRow("n1", "files.space", "free space", "none", BAD)
    check.hear_probes(0, facts={"kernel": "6.1"})
    check.hear_probes(1, rows=[full])
    assert check.it.cluster.nodes[0].facts == {"kernel": "6.1"} and check.it.cluster.nodes[0].address == "10.0.0.1"
    assert [(rank, message["stage"]) for rank, message in check.sent] == [(0, "share"), (1, "share")]
    check.hear("share", 1)
    assert not check.it.done
    check.hear("share", 0)
    assert check.it.done
    assert check.found() == [
        ("n1", "files.space", "none", BAD),
        ("", "same.versions", "0 of 2", OK),
        ("", "files.share", "2 of 2", OK),
    ]


def test_a_node_speaks_of_no_other_node():
    check = Check(2, ("files.space",))
    check.hear_probes(0)
    check.hear_probes(1, rows=[CheckRow(node, "files.space", "", "none", BAD) for node in ("n0", "", "n1")])
    assert {row.node for row in check.it.rows} == {"n1"}


def test_a_node_that_is_late_with_its_probes_takes_part_in_nothing_else():
    check = Check(3, ("files.share",), [StandInStage("share")])
    check.hear_probes(0, 2)
    check.let_pass()
    assert [(row.node, row.id, row.verdict) for row in check.it.rows] == [("n1", "node", UNKNOWN)]
    assert [rank for rank, message in check.sent] == [0, 2]
    check.hear_probes(1)
    check.hear("share", 0, 1, 2)
    assert check.it.done and check.found()[-1] == ("", "files.share", "2 of 2", OK)
    assert 1 not in [rank for rank, message in check.sent]


def test_a_node_whose_program_is_gone_is_not_waited_for():
    """Found: the run began only when the node was late with what it could not say any more."""
    check = Check(3, ("files.share",), [StandInStage("share")])
    check.it.hear(2, {"gone": "the check of this node ended by itself"}, 0.0)
    check.hear_probes(0, 1)
    assert [rank for rank, message in check.sent] == [0, 1]
    check.hear("share", 0)
    for _ in range(2):
        check.it.hear(1, {"gone": "the check of this node ended by itself"}, 0.0)
    assert check.it.done
    assert [row[:2] for row in check.found()] == [("n2", "node"), ("n1", "node"), ("", "files.share")]


def test_a_node_that_is_late_with_an_answer_has_none():
    check = Check(3, ("files.share",), [StandInStage("share")])
    check.hear_probes(0, 1, 2)
    check.hear("share", 0, 2)
    before = check.it.deadline()
    check.it.tick(before - 0.1)
    assert not check.it.done
    check.let_pass()
    assert check.it.done and check.found() == [("", "files.share", "2 of 3", OK)]


def test_strange_messages_are_no_answers():
    check = Check(2, ("files.share",), [StandInStage("share")])
    check.it.hear(0, {"stage": PROBES, "rows": [{"id": 3}], "facts": {}}, 0.0)
    check.it.hear(1, {"stage": PROBES, "rows": 7}, 0.0)
    assert check.it.done and check.sent == []
    assert [(row.node, row.id, row.verdict) for row in check.it.rows[:2]] == [
        ("n0", "node", UNKNOWN),
        ("n1", "node", UNKNOWN),
    ]


def test_a_message_of_another_stage_and_a_second_one_are_ignored():
    check = Check(2, ("files.share",), [StandInStage("share")])
    check.hear("share", 0, 1)
    check.hear_probes(0, 0, 0)
    assert not check.it.done and check.sent == []


def test_a_judge_that_raises_makes_its_rows_unknown():
    check = Check(1, ("files.share",), [StandInStage("share", error=KeyError("address"))])
    check.hear_probes(0)
    check.hear("share", 0)
    assert check.it.done and check.found() == [("", "files.share", "unknown", UNKNOWN)]
    assert "address" in check.it.rows[0].hint


def test_what_the_time_does_not_suffice_for_is_unknown():
    check = Check(1, ("files.share", "clock"), [StandInStage("share"), StandInStage("reach")], limit=5.0)
    check.hear_probes(0)
    check.let_pass()
    assert check.it.done
    assert check.found()[-1] == ("", "files.share", "unknown", UNKNOWN)


def test_rows_that_are_not_wanted_are_left_out():
    check = Check(1, ("files.inodes",))
    rows = [CheckRow("n0", id, "x", "y", OK) for id in ("files.space", "files.inodes")]
    check.hear_probes(0, rows=rows)
    assert check.it.done and [row.id for row in check.it.rows] == ["files.inodes"]


def test_a_thousand_nodes_are_led_within_a_second():
    check = Check(1000, ("files.share", "speed.compute"), [StandInStage("share"), StandInStage("pairs")])
    began = time.process_time()
    check.hear_probes(*range(1000), facts={"kernel": "6.1"})
    for stage in ("listen", "share", "pairs"):
        check.hear(stage, *range(1000))
    assert check.it.done
    assert time.process_time() - began < 5


def test_notices_are_what_a_person_should_know_worst_first():
    rows = [
        CheckRow("n1", "files.space", "free space", "1 GB of 100 GB", WARNING, "remove old runs"),
        CheckRow("n2", "gpu.count", "GPUs", "3 of 4", BAD),
        CheckRow("", "clock", "clocks", "within 0.1 s", OK),
        CheckRow("n1", "gpu.xid", "Xids", "unknown", UNKNOWN),
    ]
    assert notices_of(rows) == [
        "n2: GPUs: 3 of 4 [gpu.count]",
        "n1: free space: 1 GB of 100 GB (remove old runs) [files.space]",
    ]


def test_notices_of_many_nodes_are_few():
    full = [CheckRow("n%d" % rank, "files.space", "free space", "none", BAD) for rank in range(64)]
    assert notices_of(full) == ["n0, n1, n2 and 61 more: free space: none [files.space]"]
    long = CheckRow("n0", "files.space", "free space", "x" * (1 << 19), BAD, "y")
    assert len(notices_of([long])[0]) < 2100 and notices_of([long])[0].endswith(" [files.space]")
    assert notices_of(full[:2]) == ["n0, n1: free space: none [files.space]"]
    different = [row._replace(value=row.node) for row in full]
    assert len(notices_of(different)) == 21 and notices_of(different)[-1].startswith("44 more")
