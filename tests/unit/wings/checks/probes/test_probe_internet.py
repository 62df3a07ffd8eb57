"""Internet hosts: recorded answers, and a connection to this machine itself."""

from __future__ import annotations

import errno
import os
import socket
import threading
from pathlib import Path

import pytest
from recorded_node import node, row

from worldsize.common.named_tuple import Any
from worldsize.state.check_rows import OK, WARNING
from worldsize.wings.checks.agent.probes.internet import Target, judge_hosts, probe, target_of
from worldsize.wings.checks.agent.readers.tcp_connection import open_connection

HUB = "huggingface.co:443"


def answer(failures: dict[str, Exception]) -> Any:
    """Connections that fail as told, by host."""

    def connect(host: str, port: int, seconds: float) -> None:
        if host in failures:
            raise failures[host]

    return connect


REFUSED = OSError(errno.ENETUNREACH, os.strerror(errno.ENETUNREACH))


def test_hosts_that_can_be_reached(tmp_path: Path) -> None:
    found = row(judge_hosts(node(tmp_path, {"hosts": [HUB, "example.org:80"]}), answer({})), "network.internet")
    assert (found.verdict, found.value) == (OK, "huggingface.co:443, example.org:80 can be reached")


@pytest.mark.parametrize(
    "error, words",
    [
        (REFUSED, "Network is unreachable"),
        (TimeoutError("timed out"), "no answer within 5 s"),
        (socket.gaierror(-2, "Name or service not known"), "its name is not known (Name or service not known)"),
        (UnicodeError("label too long"), "it is not a host name"),
        (OSError("odd"), "odd"),
    ],
)
def test_host_that_cannot_be_reached(tmp_path: Path, error: Exception, words: str) -> None:
    context = node(tmp_path, {"hosts": ["example.org:80", HUB]})
    found = row(judge_hosts(context, answer({"huggingface.co": error})), "network.internet")
    assert (found.verdict, found.value) == (WARNING, "%s cannot be reached: %s" % (HUB, words))
    assert "stage:" in found.hint


def test_job_that_is_offline(tmp_path: Path) -> None:
    context = node(tmp_path, {"hosts": [HUB], "offline": True})
    found = row(judge_hosts(context, answer({"huggingface.co": REFUSED})), "network.internet")
    assert (found.verdict, found.value) == (OK, "not used: the job is offline")


@pytest.mark.parametrize("environ", [{"HF_HUB_OFFLINE": "1"}, {"TRANSFORMERS_OFFLINE": "Yes"}])
def test_libraries_that_are_told_to_be_offline(tmp_path: Path, environ: dict[str, str]) -> None:
    assert judge_hosts(node(tmp_path, {"hosts": [HUB]}, environ), answer({"huggingface.co": REFUSED})).rows == ()


def test_late_host_is_not_waited_for(tmp_path: Path) -> None:
    over = threading.Event()
    context = node(tmp_path, {"hosts": [HUB]})
    found = row(judge_hosts(context, lambda *_: over.wait(60) and None, limit=0.02), "network.internet")
    over.set()
    assert (found.verdict, found.value) == (WARNING, "huggingface.co:443 cannot be reached: no answer within 0.02 s")


@pytest.mark.parametrize("hosts", [None, [], "x", ["x"], [":80"], ["a:0"], ["a:99999"], [3], ["a:b"]])
def test_nothing_is_said_without_hosts(tmp_path: Path, hosts: Any) -> None:
    assert probe(node(tmp_path, {"hosts": hosts})) == ((), {})


PROXY = {"https_proxy": "http://me:pass@proxy.site:3128/"}


@pytest.mark.parametrize(
    "host, environ, target",
    [
        (HUB, {}, Target("huggingface.co", 443)),
        (HUB, PROXY, Target("proxy.site", 3128, True)),
        (HUB, {"HTTPS_PROXY": "proxy.site:8080"}, Target("proxy.site", 8080, True)),
        (HUB, {"HTTPS_PROXY": "http://proxy.site"}, Target("proxy.site", 80, True)),
        (HUB, {"ALL_PROXY": "socks5://[::1]:1080"}, Target("::1", 1080, True)),
        (HUB, {"http_proxy": "http://proxy.site:3128"}, Target("huggingface.co", 443)),
        ("a.b:80", {"http_proxy": "http://proxy.site:3128"}, Target("proxy.site", 3128, True)),
        (HUB, {**PROXY, "no_proxy": "localhost, .huggingface.co"}, Target("huggingface.co", 443)),
        ("x.huggingface.co:443", {**PROXY, "NO_PROXY": "huggingface.co"}, Target("x.huggingface.co", 443)),
        ("nothuggingface.co:443", {**PROXY, "no_proxy": "huggingface.co"}, Target("proxy.site", 3128, True)),
        (HUB, {**PROXY, "no_proxy": "*"}, Target("huggingface.co", 443)),
        (HUB, {"https_proxy": "http://"}, Target("huggingface.co", 443)),
        ("[2001:db8::1]:443", {}, Target("2001:db8::1", 443)),
    ],
)
def test_what_is_connected_to(host: str, environ: dict[str, str], target: Target) -> None:
    assert target_of(host, environ) == target


def test_proxy_is_named_without_its_password(tmp_path: Path) -> None:
    context = node(tmp_path, {"hosts": [HUB]}, PROXY)
    good = row(judge_hosts(context, answer({})), "network.internet").value
    bad = row(judge_hosts(context, answer({"proxy.site": REFUSED})), "network.internet").value
    assert good == "huggingface.co:443 can be reached through the proxy proxy.site:3128"
    assert bad == "huggingface.co:443 cannot be reached through the proxy proxy.site:3128: Network is unreachable"


def test_real_connection(tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        host = "127.0.0.1:%d" % server.getsockname()[1]
        assert row(probe(node(tmp_path, {"hosts": [host]})), "network.internet").verdict == OK
    assert row(probe(node(tmp_path, {"hosts": [host]})), "network.internet").verdict == WARNING


def test_one_address_that_answers_is_enough(monkeypatch: pytest.MonkeyPatch) -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        port = server.getsockname()[1]
        found = socket.getaddrinfo("127.0.0.1", port, type=socket.SOCK_STREAM)
        closed = [(*each[:4], ("127.0.0.2", 1)) for each in found]
        nowhere = [(socket.AF_INET6, socket.SOCK_STREAM, 6, "", ("2001:db8::1", port, 0, 0))]
        unknown = [(12345, socket.SOCK_STREAM, 6, "", ("127.0.0.1", port))]
        monkeypatch.setattr(socket, "getaddrinfo", lambda *_, **__: [*unknown, *nowhere, *closed, *found])
        open_connection("host.example", port, 10.0)
        monkeypatch.setattr(socket, "getaddrinfo", lambda *_, **__: closed)
        with pytest.raises(ConnectionRefusedError):
            open_connection("host.example", port, 10.0)
        monkeypatch.setattr(socket, "getaddrinfo", lambda *_, **__: [])
        with pytest.raises(OSError):
            open_connection("host.example", port, 10.0)


def test_no_answer_is_a_timeout() -> None:
    with socket.socket() as server:
        server.bind(("127.0.0.1", 0))
        server.listen(0)
        waiting = [socket.socket() for _ in range(4)]
        try:
            for each in waiting:  # the queue of connections that nobody accepts is full: further ones get no answer
                each.setblocking(False)
                each.connect_ex(server.getsockname())
            with pytest.raises(socket.timeout):
                open_connection(*server.getsockname(), 0.05)
        finally:
            for each in waiting:
                each.close()
