"""What nodes find when they look for each other: real sockets on the loopback, between listeners of one process."""

import errno
import os
import socket
import threading
import time

import pytest
from tests.unit.wings.checks.nodes import brief

from worldsize.wings.checks.agent.cluster import CheckedNode, Cluster
from worldsize.wings.checks.agent.measure import reach
from worldsize.wings.checks.agent.measure.listener import Listener
from worldsize.wings.checks.agent.network import interfaces, links, name_lookup
from worldsize.wings.checks.agent.network.greeting import NoProof, WrongPeer
from worldsize.wings.checks.agent.network.tasks import results_of
from worldsize.wings.checks.agent.node_context import NodeContext
from worldsize.wings.checks.agent.stages.reach import STAGE

HERE = "127.0.0.1"
DAY = 86_400_000_000_000


@pytest.fixture
def names(monkeypatch):
    """What names mean: by default each node's is 127.0.0.1."""
    table = {}

    def resolve(host, port, family, kind):
        found = table.get(host.decode(), [HERE])
        if isinstance(found, Exception):
            raise found
        return [(socket.AF_INET, kind, 6, "", (address, 0)) for address in found]

    monkeypatch.setattr(name_lookup.socket, "getaddrinfo", resolve)
    return table


@pytest.fixture
def cluster():
    """Makes nodes with listeners, which are closed at the end."""
    opened = []

    def make(count, clocks=None, **asked):
        for rank in range(count):
            ahead = (clocks or {}).get(rank, 0)
            opened.append(Listener(count, loopback=True, now=lambda ahead=ahead: time.time_ns() + ahead))
        nodes = [
            CheckedNode(rank, "h%d" % rank, "h%d" % rank, HERE, answers={"listen": each.answer()})
            for rank, each in enumerate(opened)
        ]
        return Cluster(nodes, asked)

    make.opened = opened
    yield make
    for each in opened:
        each.close()


def measured(cluster, environ=None):
    """The cluster after the stage, each node's measurement in a thread of its own."""
    answers = {}

    def measure(node, order):
        context = NodeContext(node.node_rank, len(cluster.nodes), node.host, node.label, "", environ or {})
        answers[node.node_rank] = reach.run(context, order)

    orders = STAGE.orders(cluster)
    threads = [threading.Thread(target=measure, args=(node, orders[node.node_rank])) for node in cluster.nodes]
    for each in threads:
        each.start()
    for each in threads:
        each.join(30)
    nodes = [node._replace(answers={**node.answers, "reach": answers[node.node_rank]}) for node in cluster.nodes]
    return cluster._replace(nodes=nodes)


def verdicts(cluster):
    return {(row.node, row.id): row.verdict for row in STAGE.judge(cluster)}


def test_four_nodes_that_reach_each_other_are_fine(names, cluster):
    assert verdicts(measured(cluster(4))) == {
        ("", "network.names"): "ok",
        ("", "network.port"): "ok",
        ("", "network.latency"): "ok",
        ("", "network.interface"): "ok",
        ("", "clock"): "ok",
    }


def test_two_nodes_that_reach_each_other_are_fine(names, cluster):
    assert set(verdicts(measured(cluster(2))).values()) == {"ok"}


def test_a_closed_port_is_bad_and_its_node_is_named(names, cluster):
    made = cluster(4)
    cluster.opened[2].close()
    found = [row for row in STAGE.judge(measured(made)) if row.verdict != "ok"]
    assert [(row.node, row.id, row.verdict) for row in found] == [("h2", "network.port", "bad")]
    assert found[0].value.startswith("not reached from h1, h3: refused (127.0.0.1:%d" % cluster.opened[2].port)


def test_a_wrong_name_is_bad_and_the_node_that_has_it_is_named(names, cluster):
    made = cluster(3)
    names["h2"] = ["127.0.0.9"]  # nothing listens there
    found = [row for row in STAGE.judge(measured(made)) if row.verdict != "ok"]
    assert brief(found) == [
        ("h0", "bad", "h2 resolves to 127.0.0.9, and is 127.0.0.1"),
        ("h1", "bad", "h2 resolves to 127.0.0.9, and is 127.0.0.1"),
    ]


def test_a_name_that_leads_to_the_node_by_another_address_is_fine(names, cluster):
    made = cluster(2)
    away = [node._replace(address="127.0.0.2") for node in made.nodes]  # the listeners are at 127.0.0.1 only
    names["h1"] = [HERE]
    peer = {"rank": 1, "host": "h1", **made.nodes[1].answers["listen"], "address": away[1].address}
    assert name_lookup.name_result(peer)["reached"] is True


def test_a_name_that_leads_elsewhere_while_the_node_cannot_be_reached_at_all_is_not_known(names, cluster):
    made = cluster(2)
    cluster.opened[1].close()
    names["h1"] = ["127.0.0.9"]
    peer = {"rank": 1, "host": "h1", **made.nodes[1].answers["listen"], "address": HERE}
    assert name_lookup.name_result(peer)["reached"] is None


@pytest.mark.parametrize(
    "error, words",
    [
        (socket.gaierror(socket.EAI_NONAME, "unknown"), "does not resolve"),
        (socket.gaierror(socket.EAI_AGAIN, "again"), "no answer from the name server"),
        (OSError("strange"), "strange"),
        (ValueError("embedded null byte"), "embedded null byte"),
    ],
)
def test_a_name_that_does_not_resolve(names, error, words):
    names["h9"] = error
    assert name_lookup.addresses_of("h9") == ([], words)


def test_an_address_of_a_link_keeps_its_interface(monkeypatch):
    entry = (socket.AF_INET6, socket.SOCK_STREAM, 6, "", ("fe80::1", 0, 0, 2))
    monkeypatch.setattr(name_lookup.socket, "getaddrinfo", lambda *given: [entry, entry])
    assert name_lookup.addresses_of("h9") == (["fe80::1%2"], "")


def test_the_real_resolver_knows_localhost():
    assert HERE in name_lookup.addresses_of("localhost")[0]
    assert name_lookup.addresses_of("\0")[0] == []


def test_a_clock_that_is_a_day_off_is_bad(names, cluster):
    made = measured(cluster(3, clocks={0: DAY}))
    assert [row.node for row in STAGE.judge(made) if row.id == "clock" and row.verdict == "bad"] == ["h0"]


def test_a_variable_that_names_no_interface_is_bad_for_gloo(names, cluster):
    made = measured(cluster(2, backend="gloo"), {"GLOO_SOCKET_IFNAME": "nowhere0"})
    assert {row.node for row in STAGE.judge(made) if row.id == "network.interface" and row.verdict == "bad"} == {
        "h0",
        "h1",
    }


def test_what_is_late_is_said_as_such(names, cluster, monkeypatch):
    monkeypatch.setattr(reach, "SECONDS", 0.05)
    never = threading.Event()
    monkeypatch.setattr(reach, "link_result", lambda *given: never.wait(5))
    monkeypatch.setattr(reach, "name_result", lambda *given: never.wait(5))
    found = STAGE.judge(measured(cluster(2)))
    never.set()
    assert [(row.id, row.verdict) for row in found if row.id in ("network.port", "network.names")] == [
        ("network.names", "warning"),
        ("network.names", "warning"),
        ("network.port", "unknown"),
        ("network.port", "unknown"),
    ]


def test_tasks_that_are_late_are_left_out():
    late = threading.Event()
    assert results_of({"a": lambda: 1, "b": lambda: late.wait(5)}, 0.05) == {"a": 1}
    late.set()
    assert results_of({}, 1) == {}


@pytest.mark.parametrize(
    "error, words",
    [
        (ConnectionRefusedError(errno.ECONNREFUSED, "x"), "refused"),
        (OSError(errno.EHOSTUNREACH, "x"), "no route to it"),
        (OSError(errno.EINVAL, "x"), "no route to it"),
        (TimeoutError("timed out"), "no answer within 5 s"),
        (OSError(errno.EADDRNOTAVAIL, "x"), os.strerror(errno.EADDRNOTAVAIL)),
        (PermissionError(errno.EPERM, "x"), "forbidden by this node's own firewall"),
        (WrongPeer("another program"), "another program"),
        (NoProof("busy"), "busy"),
    ],
)
def test_errors_of_connections_in_words(error, words):
    assert links.error_words(error, 5) == words


def test_a_port_that_accepts_and_says_nothing_is_not_certain():
    with socket.create_server((HERE, 0)) as silent:
        peer = {"rank": 1, "address": HERE, "port": silent.getsockname()[1], "token": "t"}
        found = links.link_result(peer, "port", 0.05)
    assert found["error"] and not found["certain"]


def test_the_interface_of_the_loopback_is_found(tmp_path):
    folder = tmp_path / "sys/class/net/lo"
    folder.mkdir(parents=True)
    (folder / "type").write_text("772\n")
    (folder / "mtu").write_text("65536\n")
    context = NodeContext(0, 2, "h", "h", "", {}, root=str(tmp_path))
    found = interfaces.route_facts(context, HERE, 80)
    assert found == {"name": "lo", "kind": "loopback", "mbps": None, "mtu": 65536, "address": HERE, "faster": []}


def test_an_interface_is_found_by_its_address_and_faster_ones_are_named(tmp_path, monkeypatch):
    for name, kind, speed in (("eth0", 1, "1000"), ("ib0", 32, "100000"), ("veth1", 1, "-1")):
        folder = tmp_path / "sys/class/net" / name
        folder.mkdir(parents=True)
        (folder / "type").write_text("%d\n" % kind)
        (folder / "speed").write_text(speed + "\n")
        (folder / "mtu").write_text("1500\n")
    held = [("lo", HERE), ("veth1", "10.9.0.1"), ("eth0", "10.0.0.1"), ("ib0", "10.1.0.1")]
    monkeypatch.setattr(interfaces, "_ipv4_addresses", lambda: held)
    monkeypatch.setattr(interfaces, "route_address", lambda address, port: "10.0.0.1")
    context = NodeContext(0, 2, "h", "h", "", {}, root=str(tmp_path))
    found = interfaces.route_facts(context, "10.0.0.2", 80)
    assert (found["name"], found["kind"], found["mbps"], found["faster"]) == ("eth0", "Ethernet", 1000, ["ib0"])


@pytest.mark.parametrize("content", ["", "junk\n", "00 01\n" * 10, "zz" * 16 + " 01 80 10 80 lo\n", "\x00\xff"])
def test_a_strange_list_of_addresses_is_no_error(tmp_path, monkeypatch, content):
    (tmp_path / "proc/net").mkdir(parents=True)
    (tmp_path / "proc/net/if_inet6").write_text(content)
    monkeypatch.setattr(interfaces, "_ipv4_addresses", list)
    assert interfaces.interface_addresses(NodeContext(0, 2, "h", "h", "", {}, root=str(tmp_path))) == []


def test_addresses_of_ipv6_are_read(tmp_path, monkeypatch):
    (tmp_path / "proc/net").mkdir(parents=True)
    (tmp_path / "proc/net/if_inet6").write_text("fd000000000000000000000000000001 02 40 00 80     eth0\n")
    monkeypatch.setattr(interfaces, "_ipv4_addresses", list)
    context = NodeContext(0, 2, "h", "h", "", {}, root=str(tmp_path))
    assert interfaces.interface_addresses(context) == [("eth0", "fd00::1")]


def test_an_interface_with_values_that_are_none_is_of_no_known_speed(tmp_path):
    (tmp_path / "sys/class/net/eth0").mkdir(parents=True)
    (tmp_path / "sys/class/net/eth0/speed").write_text("9" * 5000)
    context = NodeContext(0, 2, "h", "h", "", {}, root=str(tmp_path))
    assert interfaces.interface_facts(context, "eth0") == {"name": "eth0", "kind": "unknown", "mbps": None, "mtu": None}


def test_no_way_to_an_address_is_no_error():
    assert interfaces.route_address("no address", 80) == ""
