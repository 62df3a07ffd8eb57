"""Bytes around a ring of nodes: real sockets on the loopback."""

import socket
import threading

import pytest

from worldsize.wings.checks.agent.measure import listener
from worldsize.wings.checks.agent.measure.ring import CHUNK, exchange, ring_speed


@pytest.fixture
def opened():
    made = listener.start({"nodes": 1, "loopback": True})
    yield made
    listener.close()


def connected_pair():
    with socket.create_server(("127.0.0.1", 0)) as server:
        one = socket.create_connection(server.getsockname())
        return one, server.accept()[0]


def test_both_of_a_pair_send_and_receive():
    (a_out, b_into), (b_out, a_into) = connected_pair(), connected_pair()
    found = []
    other = threading.Thread(target=lambda: found.append(exchange(b_out, b_into, 8 * CHUNK)))
    other.start()
    found.append(exchange(a_out, a_into, 8 * CHUNK))
    other.join(10)
    assert all(each["received"] > 0 and each["sent"] > 0 for each in found) and len(found) == 2
    for each in (a_out, a_into, b_out, b_into):
        each.close()


def test_a_node_can_be_its_own_neighbour(opened):
    following = {"address": "127.0.0.1", "port": opened.port, "token": opened.token}
    assert set(ring_speed({"next": following}, "pairs")) == {"received", "sent"}


def test_a_partner_that_sends_nothing_is_an_error():
    out, far = connected_pair()
    near, into = connected_pair()
    near.close()
    with pytest.raises(EOFError, match="almost no data"):
        exchange(out, into, CHUNK)
    for each in (out, far, into):
        each.close()


def test_a_closed_port_is_told_in_words(opened):
    with socket.create_server(("127.0.0.1", 0)) as server:
        port = server.getsockname()[1]
    found = ring_speed({"next": {"address": "127.0.0.1", "port": port, "token": opened.token}}, "pairs")
    assert "ConnectionRefusedError" in found["network_error"]
