"""The run's directory, as all nodes see it."""

import json
import os
import subprocess
import sys
import time

import pytest

from worldsize.state.check_rows import BAD, OK, UNKNOWN, WARNING
from worldsize.wings.checks.agent.cluster import CheckedNode, Cluster
from worldsize.wings.checks.agent.measure import listener, share
from worldsize.wings.checks.agent.node_context import NodeContext
from worldsize.wings.checks.agent.stages.share import LARGE, SMALL, STAGE, WRITERS

LISTENS = {"port": 2000, "second_port": 30000, "token": "t"}
MISSING, DIFFERENT, UNTOLD = ({"problem": each} for each in ("missing", "different", "untold"))


def cluster_of(count, asked=None, answers=True):
    nodes = [
        CheckedNode(rank, "host", "node%d" % rank, "10.0.0.1", {}, {"listen": LISTENS} if count > 1 else {})
        for rank in range(count)
    ]
    cluster = Cluster(nodes, asked or {})
    orders = STAGE.orders(cluster) if answers else {}
    return cluster._replace(
        nodes=[_fine(node, orders[node.node_rank]) if node.node_rank in orders else node for node in nodes]
    )


def _fine(node, order):
    answer = {"seen": {str(each["rank"]): {"delay": 0.0} for each in order["read"]}}
    if order["bytes"] == LARGE:
        answer["rate"] = 200e6
    return node._replace(answers={**node.answers, "share": answer})


def changed(cluster, looks=(), **answers):
    """`looks`: (reader, writer, what it saw). `answers`: the whole answer of a node, as node3=…"""
    nodes = list(cluster.nodes)
    for reader, writer, seen in looks:
        nodes[reader].answers["share"]["seen"][str(writer)] = seen
    for name, answer in answers.items():
        rank = int(name[4:])
        nodes[rank] = nodes[rank]._replace(answers={"listen": LISTENS, **({} if answer is None else {"share": answer})})
    return cluster._replace(nodes=nodes)


def island(count, *ranks):
    """A cluster in which these nodes see none of the others, nor they them."""
    cluster = cluster_of(count)
    edges = [(node.node_rank, int(other)) for node in cluster.nodes for other in node.answers["share"]["seen"]]
    return changed(cluster, [(a, b, dict(MISSING)) for a, b in edges if (a in ranks) != (b in ranks)])


def verdicts(cluster):
    return [(row.node, row.verdict) for row in STAGE.judge(cluster)]


@pytest.mark.parametrize("count", [2, 3, 4, 64])
def test_a_shared_directory_is_one_row(count):
    (row,) = STAGE.judge(cluster_of(count))
    assert (row.node, row.verdict) == ("", OK)
    assert row.value.startswith("%d nodes see each other's new files" % count)


@pytest.mark.parametrize("count", [3, 4, 5, 64])
@pytest.mark.parametrize("rank", [0, 1, 2])
def test_only_the_node_with_another_directory_is_named(count, rank):
    (row,) = STAGE.judge(island(count, rank))
    assert (row.node, row.verdict) == ("node%d" % rank, BAD)
    assert "not the same file system" in row.hint


def test_of_two_nodes_the_one_that_is_not_the_head_is_named():
    assert verdicts(island(2, 1)) == [("node1", BAD)]


def test_all_nodes_of_a_smaller_part_are_named():
    assert verdicts(island(8, 5, 6, 7)) == [("node5", BAD), ("node6", BAD), ("node7", BAD)]


def test_another_content_is_bad():
    (row,) = STAGE.judge(changed(cluster_of(4), [(2, 1, DIFFERENT)]))
    assert (row.node, row.verdict) == ("node2", BAD)


def test_a_late_file_is_a_warning_and_a_node_that_was_told_nothing_unknown():
    assert verdicts(changed(cluster_of(4), [(2, 1, {"delay": 1.6})])) == [("node2", WARNING)]
    assert verdicts(changed(cluster_of(4), [(2, 1, {"delay": 0.9})])) == [("", OK)]
    assert verdicts(changed(cluster_of(4), [(2, 1, UNTOLD)])) == [("node2", UNKNOWN)]


def test_a_node_that_cannot_write_is_bad_and_its_readers_have_no_row():
    cluster = changed(cluster_of(4), [(0, 3, UNTOLD)], node3={"write_error": "No space left on device", "seen": {}})
    (row,) = STAGE.judge(cluster)
    assert (row.node, row.verdict) == ("node3", BAD)
    assert "No space left on device" in row.value


@pytest.mark.parametrize("answer", [None, {}, {"error": "OSError: x"}, {"seen": 3}, {"seen": None, "rate": "fast"}])
def test_a_node_without_an_answer_is_unknown(answer):
    assert verdicts(changed(cluster_of(4), [(0, 3, UNTOLD)], node3=answer)) == [("node3", UNKNOWN)]


@pytest.mark.parametrize("seen", [None, 3, {}, {"delay": "x"}, {"delay": float("nan")}, {"problem": 7}])
def test_a_strange_look_is_unknown(seen):
    assert verdicts(changed(cluster_of(4), [(2, 1, seen)])) == [("node2", UNKNOWN)]


def test_a_slow_file_server_is_one_warning():
    cluster = cluster_of(4)
    for node in cluster.nodes[1:]:
        node.answers["share"]["rate"] = 2e6
    (row,) = STAGE.judge(cluster)
    assert (row.node, row.verdict) == ("", WARNING)
    assert "3 nodes wrote 6 MB/s" in row.value


def test_one_slow_way_to_the_file_server_is_a_warning_of_its_node():
    cluster = cluster_of(5)
    cluster.nodes[2].answers["share"]["rate"] = 3e6
    assert verdicts(cluster) == [("node2", WARNING)]


def test_the_head_writes_little_since_all_read_it_and_few_others_write_much():
    orders = STAGE.orders(cluster_of(64, answers=False))
    assert orders[0]["bytes"] == SMALL
    assert orders[0]["readers"] == 63
    assert sum(order["bytes"] == LARGE for order in orders.values()) <= WRITERS
    assert all(len(order["read"]) <= 2 for order in orders.values())


def test_readers_are_as_many_as_read():
    for count in (2, 3, 4, 7):
        orders = STAGE.orders(cluster_of(count, answers=False))
        for rank, order in orders.items():
            assert order["readers"] == sum(each["rank"] == rank for other in orders.values() for each in other["read"])


def test_one_node_and_virtual_ones_only_write():
    for cluster in (cluster_of(1), cluster_of(3, {"virtual": True})):
        assert [order["read"] for order in STAGE.orders(cluster).values()] == [[]]
        (row,) = STAGE.judge(cluster)
        assert (row.verdict, row.value) == (OK, "wrote 200 MB/s")


def test_nothing_is_done_where_the_directory_is_not_shared_or_a_listener_is_missing():
    for cluster in (cluster_of(3, {"share": False}), changed(cluster_of(3))._replace(nodes=[
        node._replace(answers={}) for node in cluster_of(3).nodes])):  # fmt: skip
        assert not STAGE.orders(cluster)
        assert not STAGE.judge(cluster)


class Clock:
    def __init__(self):
        self.now = 0.0

    def __call__(self):
        return self.now

    def sleep(self, seconds):
        self.now += seconds


def look(path, expected, appears=None):
    clock = Clock()

    def sleep(seconds):
        clock.sleep(seconds)
        if appears is not None and clock.now >= appears:
            path.write_bytes(expected)

    return share.look(str(path), expected, clock, sleep)


def test_a_look_tells_how_late_a_file_is(tmp_path):
    path = tmp_path / "file"
    assert look(path, b"abc", appears=1.5)["delay"] == pytest.approx(1.5, abs=0.05)
    assert look(path, b"abc") == {"delay": 0.0}
    assert look(path, b"other") == {"problem": "different"}
    assert look(tmp_path / "none", b"abc") == {"problem": "missing"}
    assert look(tmp_path, b"abc") == {"problem": "missing"}


def test_a_pipe_and_an_endless_file_do_not_stop_a_look(tmp_path):
    os.mkfifo(str(tmp_path / "pipe"))
    assert look(tmp_path / "pipe", b"abc") == {"problem": "missing"}
    with open(str(tmp_path / "hole"), "wb") as file:
        file.truncate(1 << 40)
    assert look(tmp_path / "hole", b"abc") == {"problem": "different"}


@pytest.fixture
def opened():
    made = listener.start({"nodes": 2, "loopback": True})
    yield made
    listener.close()


def context(rank, directory):
    return NodeContext(rank, 2, "host", "node%d" % rank, str(directory), {})


OTHER_NODE = """
import json, sys
from worldsize.wings.checks.agent.measure import listener, share
from worldsize.wings.checks.agent.node_context import NodeContext

context = NodeContext(1, 2, "host", "node1", sys.argv[1], {})
print(json.dumps(listener.start({"nodes": 2, "loopback": True}).answer()), flush=True)
print(json.dumps(share.run(context, json.loads(sys.stdin.readline()))), flush=True)
"""


def order_of(peer, rank):
    read = {"rank": rank, "bytes": SMALL, "address": "127.0.0.1", "port": peer["port"], "token": peer["token"]}
    return {"nonce": "n", "bytes": SMALL, "readers": 1, "read": [read]}


@pytest.mark.parametrize("same", [True, False])
def test_two_nodes_see_each_other_only_in_one_directory_and_leave_nothing(opened, tmp_path, monkeypatch, same):
    monkeypatch.setattr(share, "VISIBLE_WITHIN", 0.1)
    there = tmp_path / ("here" if same else "there")
    for directory in {tmp_path / "here", there}:
        directory.mkdir()
    pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE}
    program = OTHER_NODE.replace("context =", "share.VISIBLE_WITHIN = 0.1; context =")
    with subprocess.Popen([sys.executable, "-c", program, str(there)], text=True, **pipes) as other:
        peer = json.loads(other.stdout.readline())
        other.stdin.write(json.dumps(order_of(opened.answer(), 0)) + "\n")
        other.stdin.flush()
        here = share.run(context(0, tmp_path / "here"), order_of(peer, 1))["seen"]["1"]
        far = json.loads(other.stdout.readline())["seen"]["0"]
    assert set(here) == set(far) == ({"delay"} if same else {"problem"})
    assert not os.listdir(str(tmp_path / "here")) and not os.listdir(str(there))


def test_a_single_node_tells_its_rate(tmp_path):
    answer = share.run(context(0, tmp_path), {"nonce": "n", "bytes": share.MEASURED_BYTES, "readers": 0, "read": []})
    assert answer["rate"] > 0 and answer["seen"] == {}
    assert not os.listdir(str(tmp_path))


def test_what_somebody_else_has_put_there_is_not_written_over(tmp_path):
    (tmp_path / "target").write_text("mine")
    (tmp_path / ".check-n-0").symlink_to(tmp_path / "target")
    order = {"nonce": "n", "bytes": SMALL, "readers": 0, "read": []}
    assert "write_error" not in share.run(context(0, tmp_path), order)
    assert (tmp_path / "target").read_text() == "mine"


def test_a_thousand_nodes_take_a_moment():
    began = time.process_time()
    assert verdicts(cluster_of(1000)) == [("", OK)]
    assert verdicts(island(1000, 7)) == [("node7", BAD)]
    assert time.process_time() - began < 5.0


def test_a_file_that_a_killed_check_has_left_is_no_obstacle(tmp_path):
    """Found: a run that was started again could not write, as it seemed."""
    (order,) = STAGE.orders(cluster_of(1, answers=False)).values()
    context = NodeContext(0, 1, "host", "node0", str(tmp_path), {})
    left = tmp_path / (".check-%s-0" % order["nonce"])
    left.write_text("left")
    assert share.run(context, order).keys() == {"rate", "seen"}
    assert not left.exists()


def test_a_rate_that_is_missing_is_said_in_words():
    (row,) = STAGE.judge(changed(cluster_of(2), node1={"seen": {"0": {"delay": 0.0}}}))
    assert (row.verdict, row.value) == (OK, "2 nodes see each other's new files at once; writing was not measured")
