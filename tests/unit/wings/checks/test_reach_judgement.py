"""What the head makes of what nodes found when they looked for each other: recorded answers."""

import time

import pytest
from tests.unit.wings.checks.nodes import brief, nodes_of

from worldsize.wings.checks.agent.cluster import Cluster
from worldsize.wings.checks.agent.stages.reach import STAGE

LISTENING = {"port": 24000, "second_port": 41000, "token": "t"}
ETH0 = {"name": "eth0", "kind": "Ethernet", "mbps": 25000, "mtu": 9000, "faster": []}


def cluster_of(count, answer_of=None, facts=None, **asked):
    """A cluster in which each node has answered its order well, as changed by `answer_of(rank, answer)`."""
    listening = {"listen": [LISTENING] * count}
    before = Cluster(nodes_of(*[facts or {}] * count, answers=listening), asked)
    orders = STAGE.orders(before)
    answers = [fine(orders.get(rank)) for rank in range(count)]
    for rank, answer in enumerate(answers if answer_of else ()):
        answers[rank] = answer_of(rank, answer)
    nodes = [
        node
        if answers[node.node_rank] is None
        else node._replace(answers={**node.answers, "reach": answers[node.node_rank]})
        for node in before.nodes
    ]
    return before._replace(nodes=nodes)


def fine(order):
    peers = order["peers"] if order else []
    return {
        "links": [
            {"rank": peer["rank"], "port": peer[port], "error": "", "certain": True}
            for peer in peers
            if peer["link"]
            for port in ("port", "second_port")
        ],
        "names": [
            {"rank": peer["rank"], "addresses": [peer["address"]], "error": "", "reached": True}
            for peer in peers
            if peer["name"]
        ],
        "own": {"addresses": ["10.0.0.1"], "error": ""},
        "latency": 0.0002,
        "clock": [0.0001, 0.0001],
        "interface": ETH0,
        "interfaces": ["eth0", "lo"],
        "ifnames": {},
    }


def judged(cluster, id=None):
    return [row for row in STAGE.judge(cluster) if id in (None, row.id)]


def blocked(*pairs, error="no answer within 5 s", certain=True, port=None):
    """Changes answers so that the connections from one to another of these pairs fail; None: from, or to, all."""

    def change(rank, answer):
        for link in answer["links"]:
            if any(f in (None, rank) and t in (None, link["rank"]) for f, t in pairs) and port in (None, link["port"]):
                link.update(error=error, certain=certain)
        return answer

    return change


def test_all_is_fine_in_one_row_each():
    assert brief(judged(cluster_of(4))) == [
        ("", "ok", "4 nodes, 12 names looked up"),
        ("", "ok", "4 nodes, 18 connections"),
        ("", "ok", "0.2 ms to 0.2 ms, median 0.2 ms"),
        ("", "ok", "4 nodes: eth0, Ethernet, 25 Gb/s, MTU 9000"),
        ("", "ok", "4 nodes, within 0.2 ms"),
    ]


@pytest.mark.parametrize("count, asked", [(1, {}), (4, {"virtual": True}), (0, {})])
def test_virtual_nodes_and_a_single_one_do_nothing(count, asked):
    cluster = cluster_of(count, **asked)
    assert STAGE.orders(cluster) == {}
    assert judged(cluster) == []


@pytest.mark.parametrize(
    "count, pairs, bad",
    [
        (2, [(1, 0)], [0]),
        (2, [(0, 1), (1, 0)], [0, 1]),
        (3, [(1, None)], [1]),
        (3, [(None, 1)], [1]),
        (3, [(None, 0), (None, 2)], [0, 2]),
        (4, [(None, 0)], [0]),
        (4, [(None, 2)], [2]),
        (4, [(1, None)], [1]),
        (4, [(3, 0)], [3]),
        (4, [(2, None), (None, 2)], [2]),
        (4, [(None, None)], [0, 1, 2, 3]),
        (64, [(None, 17)], [17]),
        (64, [(17, None), (40, 0)], [17, 40]),
    ],
)
def test_the_node_whose_ports_are_closed_is_named_and_no_other(count, pairs, bad):
    found = judged(cluster_of(count, blocked(*pairs)), "network.port")
    assert [(row.node, row.verdict) for row in found] == [("node%d" % rank, "bad") for rank in bad]


def test_the_row_of_a_closed_port_says_from_where_and_at_which_address():
    assert brief(judged(cluster_of(4, blocked((None, 0), error="refused", port=24000)), "network.port")) == [
        ("node0", "bad", "not reached from node1, node2, node3: refused (10.0.0.1:24000)")
    ]
    row = judged(cluster_of(4, blocked((3, 2))), "network.port")[0]
    assert row.value == "cannot connect to node2: no answer within 5 s (10.0.0.3:24000 and 10.0.0.3:41000)"
    assert "from 1024 on" in row.hint


def test_a_node_that_is_too_busy_to_answer_is_unknown():
    found = judged(
        cluster_of(3, blocked((1, 2), certain=False, error="what listens there does not answer")), "network.port"
    )
    assert brief(found) == [("node1", "unknown", "what listens there does not answer")]


def test_a_node_that_did_not_answer_is_unknown():
    found = judged(cluster_of(3, lambda rank, answer: None if rank == 1 else answer))
    assert [(row.id, row.verdict) for row in found if row.node == "node1"] == [
        ("network.port", "unknown"),
        ("clock", "unknown"),
    ]


def test_a_node_whose_listener_did_not_open_is_nobodys_target():
    nodes = nodes_of({}, {}, {}, answers={"listen": [LISTENING, {"error": "no file descriptors"}, LISTENING]})
    orders = STAGE.orders(Cluster(nodes))
    assert [[peer["rank"] for peer in orders[rank]["peers"]] for rank in range(3)] == [[2], [0, 2], [0]]


def renamed(tester, target, **changes):
    def change(rank, answer):
        for name in answer["names"]:
            if tester in (None, rank) and target in (None, name["rank"]):
                name.update(changes)
        return answer

    return change


def names(*given, count=4, **asked):
    return judged(cluster_of(count, renamed(*given[:2], **given[2]), **asked), "network.names")


def test_a_wrong_hosts_entry_is_bad_and_says_what_it_takes_the_name_for():
    found = names(2, 3, {"addresses": ["127.0.1.1"], "reached": False})
    assert brief(found) == [("node2", "bad", "node3 resolves to 127.0.1.1, and is 10.0.0.4")]
    assert "/etc/hosts of node2" in found[0].hint


def test_a_name_for_another_address_at_which_the_node_is_reached_is_fine():
    assert [row.verdict for row in names(2, 3, {"addresses": ["10.1.0.4"], "reached": True})] == ["ok"]


def test_a_name_that_cannot_be_told_is_unknown():
    assert [row.verdict for row in names(2, 3, {"addresses": ["10.1.0.4"], "reached": None})] == ["unknown"]


@pytest.mark.parametrize(
    "asked, verdict",
    [
        ({}, "warning"),
        ({"launcher": "mpirun"}, "bad"),
        ({"launcher": "deepspeed"}, "bad"),
        ({"launcher": ["x"]}, "warning"),
    ],
)
def test_a_name_that_does_not_resolve_is_bad_where_names_are_used(asked, verdict):
    found = names(2, 3, {"addresses": [], "error": "does not resolve", "reached": None}, **asked)
    assert brief(found) == [("node2", verdict, "node3: does not resolve")]


def test_a_name_server_that_does_not_answer_is_a_warning_even_where_names_are_used():
    error = {"addresses": [], "error": "no answer from the name server", "reached": None}
    assert [row.verdict for row in names(2, 3, error, launcher="mpirun")] == ["warning"]


def test_a_site_without_names_has_one_row():
    error = {"addresses": [], "error": "does not resolve", "reached": None}
    assert brief(names(None, None, error, count=64)) == [("", "warning", "no node resolves the name of another")]


def own(addresses, error="", **asked):
    variables = asked.pop("ifnames", {})
    given = {"own": {"addresses": addresses, "error": error}, "ifnames": variables}
    found = judged(
        cluster_of(3, lambda rank, answer: {**answer, **(given if rank == 1 else {})}, **asked), "network.names"
    )
    return [(row.node, row.verdict) for row in found]


def test_an_own_name_on_the_loopback_is_a_warning_for_gloo():
    assert own(["127.0.1.1"]) == own(["::1", "10.0.0.2"], backend="gloo") == [("node1", "warning")]
    assert own([], "does not resolve") == [("node1", "warning")]
    fine_ones = [
        own(["10.0.0.2", "127.0.1.1"]),
        own(["127.0.1.1"], backend="nccl"),
        own(["127.0.1.1"], gpus=8),
        own(["127.0.1.1"], framework="mpi"),
        own(["127.0.1.1"], ifnames={"GLOO_SOCKET_IFNAME": "eth0"}),
        own([], "no answer from the name server"),
    ]
    assert fine_ones == [[("", "ok")]] * 6


def latencies(*seconds):
    return judged(
        cluster_of(len(seconds), lambda rank, answer: {**answer, "latency": seconds[rank]}), "network.latency"
    )


def test_a_slow_node_is_named_and_its_neighbours_are_not():
    assert brief(latencies(0.0002, 0.05, 0.05, 0.0002)) == [
        ("node2", "warning", "50 ms, the median of the others is 0.2 ms")
    ]


@pytest.mark.parametrize(
    "seconds", [(0.0001, 0.004, 0.004, 0.0001), (0.02, 0.03, 0.05, 0.04), (0.0001, 0.9), (0.0002, 0.05, 0.0002)]
)
def test_what_is_no_slow_node(seconds):
    assert [row.verdict for row in latencies(*seconds)] == ["ok"]


def interfaces(changes, facts=None, **asked):
    def change(rank, answer):
        return {**answer, "interface": {**ETH0, **changes.get(rank, changes.get(None, {}))}}

    return judged(cluster_of(4, change, facts, **asked), "network.interface")


@pytest.mark.parametrize(
    "changes, words",
    [
        ({"mbps": 1000}, "eth0: 1 Gb/s, the other 3 have 25 Gb/s"),
        ({"mtu": 1500}, "eth0: MTU 1500, the other 3 have MTU 9000"),
        ({"kind": "InfiniBand"}, "eth0: InfiniBand, the other 3 have Ethernet"),
    ],
)
def test_an_interface_that_differs_is_a_warning(changes, words):
    assert brief(interfaces({2: changes})) == [("node2", "warning", words)]


def test_another_name_and_an_unknown_speed_are_no_difference():
    assert [row.verdict for row in interfaces({2: {"name": "ens3"}, 3: {"mbps": None}})] == ["ok"]


def test_one_gigabit_for_several_gpus_is_a_warning_but_not_beside_infiniband():
    slow = {None: {"mbps": 1000}}
    found = interfaces(slow, gpus=8)
    assert [(row.node, row.verdict) for row in found] == [("node%d" % rank, "warning") for rank in range(4)]
    beside = {None: {"mbps": 1000, "faster": ["hsn0"]}}
    assert [row.verdict for row in interfaces(beside, gpus=8)] == ["ok"]
    assert "GLOO_SOCKET_IFNAME to hsn0" in interfaces(beside, gpus=8, backend="gloo")[0].hint
    active = {"fabric": [{"state": "ACTIVE"}]}
    quiet = [interfaces(slow), interfaces(slow, gpus=1), interfaces(slow, active, gpus=8)]
    assert [[row.verdict for row in rows] for rows in quiet] == [["ok"]] * 3


@pytest.mark.parametrize(
    "variable, value, verdict",
    [
        ("NCCL_SOCKET_IFNAME", "eth", "ok"),
        ("NCCL_SOCKET_IFNAME", "=eth", "warning"),
        ("NCCL_SOCKET_IFNAME", "=eth0", "ok"),
        ("NCCL_SOCKET_IFNAME", "^docker,lo", "ok"),
        ("NCCL_SOCKET_IFNAME", "^eth,lo", "warning"),
        ("NCCL_SOCKET_IFNAME", "ib,eth", "ok"),
        ("NCCL_SOCKET_IFNAME", "ib", "warning"),
        ("GLOO_SOCKET_IFNAME", "eth", "bad"),
        ("GLOO_SOCKET_IFNAME", "eth0", "ok"),
        ("GLOO_SOCKET_IFNAME", ",", "bad"),
    ],
)
def test_a_variable_that_names_an_interface(variable, value, verdict):
    found = cluster_of(2, lambda rank, answer: {**answer, "ifnames": {variable: value}}, backend="gloo")
    assert {row.verdict for row in judged(found, "network.interface")} == {verdict}


STRANGE = [
    None,
    [],
    {},
    "x",
    5,
    True,
    float("nan"),
    10**400,
    [[]],
    [{}],
    {"rank": 10**9},
    ["\x1b" * 9999] * 300,
    "\n" * 10**5,
]


@pytest.mark.parametrize("strange", STRANGE, ids=range(len(STRANGE)))
def test_strange_answers_never_raise(strange):
    keys = list(fine(None))
    for key in keys:
        rows = judged(cluster_of(3, lambda rank, answer, key=key: {**answer, key: strange} if rank == 1 else answer))
        assert not any("\x1b" in row.value or "\n" in row.value or len(row.value) > 2000 for row in rows)
    judged(cluster_of(3, lambda rank, answer: strange))
    entry = {"rank": strange, "port": strange, "error": strange, "addresses": strange, "reached": strange}
    judged(cluster_of(3, lambda rank, answer: {**answer, "links": [entry], "names": [entry], "own": entry}))
    nodes = nodes_of({}, {}, answers={"listen": [strange, {"port": strange, "second_port": strange, "token": strange}]})
    assert [order["peers"] for order in STAGE.orders(Cluster(nodes)).values()] == [[], []]


@pytest.mark.parametrize("count", [17, 64, 1000])
def test_the_orders_of_many_nodes_are_short(count):
    started = time.process_time()
    cluster = cluster_of(count)
    orders = STAGE.orders(cluster)
    assert max(len(order["peers"]) for order in orders.values()) <= 7
    reached = {peer["rank"] for order in orders.values() for peer in order["peers"] if peer["link"]}
    assert reached == set(range(count))
    assert all(rank not in [peer["rank"] for peer in order["peers"]] for rank, order in orders.items())
    assert {row.verdict for row in judged(cluster)} == {"ok"}
    assert time.process_time() - started < 1.0


def test_each_of_16_nodes_looks_up_all_names():
    assert {len(order["peers"]) for order in STAGE.orders(cluster_of(16)).values()} == {15}
