"""The listeners by which the nodes of a check reach each other: real sockets on the loopback."""

import json
import socket
import threading
from types import SimpleNamespace

import pytest

from worldsize.wings.checks.agent.cluster import CheckedNode, Cluster
from worldsize.wings.checks.agent.measure import listen, listener
from worldsize.wings.checks.agent.network import greeting
from worldsize.wings.checks.agent.node_context import NodeContext
from worldsize.wings.checks.agent.stages.listen import STAGE, listener_of

HERE = "127.0.0.1"


@pytest.fixture
def opened():
    made = listener.Listener(2, now=lambda: 123)
    yield made
    made.close()


def connected(opened, kind, timeout=5.0, **changed):
    given = {"port": opened.port, "token": opened.token, **changed}
    return listener.connect(HERE, given["port"], given["token"], kind, timeout)


def raw(opened):
    return socket.create_connection((HERE, opened.port), 5)


def first_line(opened, kind=b"echo", nonce=b"0" * 32):
    return b"%s %s %s\n" % (greeting._mac(opened.token, b"ask", nonce, kind), nonce, kind)


@pytest.mark.parametrize("port", ["port", "second_port"])
def test_64_bytes_come_back_on_an_echo_connection_at_both_ports(opened, port):
    with connected(opened, "echo", port=getattr(opened, port)) as connection:
        for each in (b"a" * 64, b"b" * 64):
            connection.sendall(each)
            assert greeting.read_exactly(connection, 64) == each


def test_the_ports_are_two(opened):
    assert opened.port != opened.second_port


def test_each_byte_on_a_time_connection_is_answered_by_the_nodes_time(opened):
    with connected(opened, "time") as connection:
        connection.sendall(b"?")
        assert int.from_bytes(greeting.read_exactly(connection, 8), "big") == 123


def test_another_kind_waits_for_the_one_who_takes_it_and_no_byte_is_lost(opened):
    with connected(opened, "pairs.0-1") as connection:
        connection.sendall(b"hello")
        with opened.take("pairs.0-1", 5) as taken:
            assert taken.recv(5) == b"hello"
            taken.sendall(b"answer")
            assert greeting.read_exactly(connection, 6) == b"answer"


def test_connections_of_one_kind_are_taken_in_their_order_and_other_kinds_stay(opened):
    with connected(opened, "a") as first, connected(opened, "b"), connected(opened, "a") as second:
        first.sendall(b"1")
        second.sendall(b"2")
        taken = [opened.take("a", 5), opened.take("a", 5)]
        assert [each.recv(1) for each in taken] == [b"1", b"2"]
        for each in taken:
            each.close()


def test_who_waits_gets_what_comes_later(opened):
    result = []
    waiting = threading.Thread(target=lambda: result.append(opened.take("late", 5)))
    waiting.start()
    connected(opened, "late").close()
    waiting.join(5)
    assert len(result) == 1
    result[0].close()


def test_nothing_to_take_is_a_timeout(opened):
    with pytest.raises(TimeoutError, match="no node connected for share within 0 s"):
        opened.take("share", 0)


def test_who_waits_when_the_listener_is_closed_gets_a_timeout_at_once(opened):
    failed = threading.Event()

    def wait():
        with pytest.raises(TimeoutError):
            opened.take("share", 60)
        failed.set()

    thread = threading.Thread(target=wait)
    thread.start()
    opened.close()
    thread.join(5)
    assert failed.is_set()


def test_a_listener_goes_on_when_it_had_no_thread_for_a_connection(opened, monkeypatch):
    start, refused = threading.Thread.start, []

    def refuse_once(thread):
        if refused:
            return start(thread)
        refused.append(thread)
        raise RuntimeError("can't start new thread")

    monkeypatch.setattr(threading.Thread, "start", refuse_once)
    with pytest.raises(greeting.NoProof):
        connected(opened, "echo")
    connected(opened, "echo").close()


@pytest.mark.parametrize(
    "sent",
    [
        b"\n",
        b"GET / HTTP/1.1\r\n\r\n",
        b"\x00\xff" * 40 + b"\n",
        b"x" * 100_000,
        b" " * 50 + b"\n",
        b"a" * 64 + b" " + b"0" * 32 + b" echo\n",
        b"a" * 64 + b" " + b"0" * 32 + b" " + b"\xff" * 8 + b"\n",
    ],
)
def test_a_stranger_gets_nothing(opened, sent):
    with raw(opened) as connection:
        try:
            connection.sendall(sent)
            connection.shutdown(socket.SHUT_WR)
            got = connection.recv(1)
        except OSError:  # closed with bytes left unread: a reset
            got = b""
        assert got == b""
    with connected(opened, "echo"):
        pass


def test_a_node_with_another_token_is_refused(opened):
    with pytest.raises(greeting.NoProof, match="closed the connection"):
        connected(opened, "echo", token="0" * 32)


def test_the_proof_of_a_connection_that_was_overheard_does_not_hold_again(opened):
    with raw(opened) as first:
        first.sendall(first_line(opened))
        assert len(greeting.read_exactly(first, 64)) == 64
    with raw(opened) as second:
        second.sendall(first_line(opened))
        assert second.recv(1) == b""


def test_a_first_line_in_pieces_is_understood_and_one_with_more_behind_it_is_not(opened):
    with raw(opened) as connection:
        line = first_line(opened)
        connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        connection.sendall(line[:7])
        connection.sendall(line[7:])
        assert len(greeting.read_exactly(connection, 64)) == 64
    with raw(opened) as connection:
        connection.sendall(first_line(opened, nonce=b"1" * 32) + b"more")
        assert connection.recv(1) == b""


def test_the_token_never_goes_over_the_network(opened):
    with socket.create_server((HERE, 0)) as other:
        seen = []

        def read():
            connection = other.accept()[0]
            seen.append(connection.recv(4096))
            connection.close()

        thread = threading.Thread(target=read)
        thread.start()
        with pytest.raises(greeting.NoProof):
            listener.connect(HERE, other.getsockname()[1], opened.token, "echo", 5)
        thread.join(5)
    assert opened.token.encode() not in seen[0]


def test_a_program_that_echoes_whatever_comes_is_not_taken_for_the_node(opened):
    with socket.create_server((HERE, 0)) as other:

        def echo():
            connection = other.accept()[0]
            connection.sendall(connection.recv(4096))
            connection.close()

        thread = threading.Thread(target=echo)
        thread.start()
        with pytest.raises(greeting.WrongPeer):
            listener.connect(HERE, other.getsockname()[1], opened.token, "echo", 5)
        thread.join(5)


def test_a_server_that_never_answers_costs_no_more_than_the_timeout():
    with socket.create_server((HERE, 0)) as silent, pytest.raises(greeting.NoProof):
        listener.connect(HERE, silent.getsockname()[1], "token", "echo", 0.05)


def test_strangers_who_say_nothing_leave_room_for_the_nodes(opened):
    held = [raw(opened) for _ in range(40)]
    try:
        with connected(opened, "echo") as connection:
            connection.sendall(b"x" * 64)
            assert greeting.read_exactly(connection, 64) == b"x" * 64
    finally:
        for each in held:
            each.close()


def test_a_flood_of_strangers_who_say_nothing_keeps_no_node_out(opened, monkeypatch):
    """A node gets through long before the time of a stranger is over."""
    monkeypatch.setattr(listener, "_FIRST_LINE", 600.0)
    held = [raw(opened) for _ in range(2 * listener.STRANGERS)]
    try:
        with connected(opened, "echo", timeout=30.0) as connection:
            held += [raw(opened) for _ in range(2 * listener.STRANGERS)]
            connection.sendall(b"x" * 64)
            assert greeting.read_exactly(connection, 64) == b"x" * 64
        connected(opened, "pairs", timeout=30.0).close()
        opened.take("pairs", 30.0).close()
    finally:
        for each in held:
            each.close()


def test_a_closed_listener_refuses_and_closes_what_nobody_took(opened):
    connection = connected(opened, "share")
    opened.close()
    try:
        assert connection.recv(1) == b""
    except ConnectionError:
        pass
    with pytest.raises(OSError):
        connected(opened, "share")
    opened.close()


def test_a_port_of_the_kernels_choice_where_none_can_be_reserved(monkeypatch):
    def fail():
        raise OSError("no port")

    monkeypatch.setattr(listener, "PortReservation", fail)
    made = listener.Listener(1)
    try:
        assert made.port > 0 and made.second_port > 0
    finally:
        made.close()


@pytest.fixture
def run_dir(tmp_path, monkeypatch):
    monkeypatch.setattr(greeting, "_token_of_run", b"")
    (tmp_path / "attempt-2").mkdir()
    said = {"address": HERE, "port": 1, "control_port": 0, "token": "f" * 32}
    (tmp_path / "attempt-2" / "rendezvous.json").write_text(json.dumps(said))
    return str(tmp_path)


def test_who_knows_the_nodes_token_and_not_the_runs_gets_nothing(run_dir, monkeypatch):
    """Found: agents tell each other the nodes' tokens over the network, and these were enough."""
    context = NodeContext(0, 1, "n", "n", run_dir, {}, attempt=2)
    try:
        answer = listen.run(context, {})
        listener.connect(HERE, answer["port"], answer["token"], "echo", 5).close()
        overheard = first_line(SimpleNamespace(token=answer["token"]))
        monkeypatch.setattr(greeting, "_token_of_run", b"")
        assert overheard != first_line(SimpleNamespace(token=answer["token"]))
        line = first_line(SimpleNamespace(token=answer["token"]))
        greeting.use_token_of_run("f" * 32)
        with raw(SimpleNamespace(port=answer["port"])) as connection:
            connection.sendall(line)
            assert connection.recv(1) == b""
    finally:
        listener.close()


def test_without_the_runs_token_nobody_listens(tmp_path):
    with pytest.raises(FileNotFoundError):
        listen.run(NodeContext(0, 1, "n", "n", str(tmp_path), {}), {})


def test_the_stage_opens_the_process_s_listener_once(run_dir):
    context = NodeContext(0, 1, "n", "n", run_dir, {}, attempt=2)
    cluster = Cluster([CheckedNode(0, "n", "n", HERE)])
    try:
        answer = listen.run(context, STAGE.orders(cluster)[0])
        assert listen.run(context, {}) == answer
        node = CheckedNode(0, "n", "n", HERE, answers={"listen": answer})
        found = listener_of(node)
        with listener.connect(found["address"], found["port"], found["token"], "share", 5):
            listener.take("share", 5).close()
    finally:
        listener.close()
    with pytest.raises(TimeoutError):
        listener.take("share", 0)
    listener.close()


@pytest.mark.parametrize("virtual", [True, False])
def test_virtual_nodes_listen_on_the_loopback_alone(virtual):
    cluster = Cluster([CheckedNode(0, "a", "a", "10.0.0.1"), CheckedNode(1, "b", "b")], {"virtual": virtual})
    assert STAGE.orders(cluster) == {rank: {"nodes": 2, "loopback": virtual} for rank in (0, 1)}
    assert STAGE.judge(cluster) == ()


@pytest.mark.parametrize(
    "answer",
    [{}, None, {"error": "x"}, {"port": "1", "second_port": 2, "token": "t"}, {"port": 1, "second_port": 70000},
     {"port": True, "second_port": 2, "token": "t"}, {"port": 1, "second_port": 2, "token": 5}],
)  # fmt: skip
def test_a_strange_answer_is_no_listener(answer):
    assert listener_of(CheckedNode(0, "a", "a", HERE, answers={"listen": answer})) is None
