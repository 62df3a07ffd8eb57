"""The client against a real HTTP server that answers badly: what is tried again, what is an error, what it says."""

from __future__ import annotations

import base64
import gzip
import itertools
import socket
import ssl
from pathlib import Path

import pytest
import trustme
from hpcpack_server import LOST, Asked, Reply, serving, several

from worldsize.compute.http import exchange
from worldsize.compute.http.errors import LostAnswer, TurnedAway
from worldsize.errors import ConfigError, SubmitAgain, SubmitRejected
from worldsize.wings.hpcpack.head import client
from worldsize.wings.hpcpack.head.client import HeadNodeClient, tls_context
from worldsize.wings.hpcpack.head.errors import MissingResource
from worldsize.wings.hpcpack.reports import nodes
from worldsize.wings.hpcpack.settings import HeadAccess


def test_each_request_says_who_asks_and_for_whom() -> None:
    with serving(lambda asked: Reply(body=5)) as server, server.head(as_user="CORP\\you") as head:
        assert head.get("/jobs/5", properties="Id,State", expandParametric=True, nothing=None) == 5
        assert head.post("/jobs", [{"Name": "Name", "Value": "ü"}]) == 5
        assert head.sent == 2
    asked, posted = server.asked
    assert (asked.path, asked.params) == ("/hpc/jobs/5", {"properties": "Id,State", "expandParametric": "true"})
    assert base64.b64decode(asked.headers["authorization"].split()[1]).decode() == "CORP\\me:pass:wörd"
    assert asked.headers["x-ms-as-user"] == "CORP\\you"
    assert (posted.method, posted.body) == ("POST", [{"Name": "Name", "Value": "ü"}])


def test_an_answer_may_be_empty() -> None:
    with serving([Reply(204)]) as server, server.head() as head:
        assert head.post("/jobs/1/submit") is None


def test_a_long_list_comes_in_pages() -> None:
    """As long as a header says that there is more."""

    def answer(asked: Asked) -> Reply:
        page = {None: several({"Id": 1}, {"Id": 2}), "a": several({"Id": 3}), "b": []}[asked.params.get("queryId")]
        more = {None: {"X-MS-Continuation-QueryId": "a"}, "a": {"x-ms-continuation-queryId": "b"}}
        return Reply(body=page, headers=more.get(asked.params.get("queryId"), {}))

    with serving(answer) as server, server.head() as head:
        assert [row["id"] for row in head.read_rows("/jobs", owner="x")] == ["1", "2", "3"]
        assert all(each.params["owner"] == "x" and each.params["rowsPerRead"] == "1000" for each in server.asked)


def test_a_list_has_an_end(monkeypatch: pytest.MonkeyPatch) -> None:
    """Found by review: a head that always says that there is more was asked for ever."""
    same = Reply(body=several({"Id": 1}), headers={"x-ms-continuation-queryid": "a"})
    with serving(lambda asked: same) as server, server.head() as head:
        assert list(head.read_rows("/jobs")) == [{"id": "1"}, {"id": "1"}]
    monkeypatch.setattr(client, "_MOST_PAGES", 20)
    count = itertools.count()

    def other(asked: Asked) -> Reply:
        return Reply(body=several({"Id": 1}), headers={"x-ms-continuation-queryid": str(next(count))})

    with serving(other) as server, server.head() as head, pytest.raises(SubmitRejected, match="does not end"):
        list(head.read_rows("/jobs"))
    assert len(server.asked) == 21


def test_an_answer_has_a_measure(monkeypatch: pytest.MonkeyPatch) -> None:
    """Found by review: a small one could fill the memory as it was unpacked."""
    monkeypatch.setattr(exchange, "_LARGEST_ANSWER", 1 << 20)
    packed = gzip.compress(b'"' + b" " * (1 << 21) + b'"')
    large = Reply(headers={"content-encoding": "gzip"}, text=packed)
    with (
        serving(lambda asked: large) as server,
        server.head(0) as head,
        pytest.raises(SubmitAgain, match="larger than"),
    ):
        head.get("/jobs/1")
    fits = Reply(headers={"content-encoding": "gzip"}, text=gzip.compress(b'"text"'))
    with serving(lambda asked: fits) as server, server.head() as head:
        assert head.get("/jobs/1") == "text"


def test_an_answer_that_comes_by_drops(monkeypatch: pytest.MonkeyPatch) -> None:
    """Found by review: each piece came in time, and the end never."""
    with serving(lambda asked: Reply(body="x" * (1 << 20))) as server, server.head(0) as head:
        ticks = itertools.count(step=60)
        monkeypatch.setattr(head._exchange, "now", lambda: float(next(ticks)))
        with pytest.raises(SubmitAgain, match="the answer does not end"):
            head.get("/jobs/1")


@pytest.mark.parametrize(
    "text",
    [
        b"[1]",
        b'[{"Name": "N", "Cores": 1e999}]',
        b'[{"Name": "N", "Cores": NaN}]',
        b'[{"Name": "N", "Groups": 5}]',
        b"[" * 100_000,
        b'[{"Name": "N", "Cores": "%s"}]' % (b"9" * 5000),
        b'[{"Name": "N", "Cores": %s}]' % (b"9" * 5000),
    ],
    ids=lambda text: text[:40].decode(),
)
def test_what_says_nothing_of_nodes(text: bytes) -> None:
    """Found by review: a traceback."""
    with serving(lambda asked: Reply(text=text)) as server, server.head() as head:
        try:
            assert [node.cpus for node in nodes(head)] == [None]  # of a number that is none
        except (SubmitRejected, ConfigError) as error:
            assert server.url.removesuffix("/hpc") in str(error.where)


@pytest.mark.parametrize("trouble", [Reply(503, "busy"), Reply(502), Reply(504), Reply(429), LOST])
def test_a_question_is_asked_again_with_growing_pauses(trouble: Reply) -> None:
    with serving([trouble] * 4 + [Reply(body="fine")]) as server, server.head(30) as head:
        assert head.get("/cluster/version") == "fine"
    assert server.slept == [0.5, 1.0, 2.0, 4.0]


def test_a_head_that_says_when_to_come_again_is_left_alone_until_then() -> None:
    busy = Reply(503, "busy", headers={"Retry-After": "7"})
    with serving([busy, Reply(body="fine")]) as server, server.head(30) as head:
        assert head.get("/cluster/version") == "fine"
    assert server.slept == [7.0]
    with serving([busy]) as server, server.head(5) as head, pytest.raises(TurnedAway, match="busy"):
        head.get("/cluster/version")
    assert server.slept == []


def test_patience_has_an_end() -> None:
    with (
        serving([Reply(503, "in maintenance")] * 20) as server,
        server.head(10) as head,
        pytest.raises(SubmitAgain, match="in maintenance") as caught,
    ):
        head.get("/cluster/version")
    assert 5 <= sum(server.slept) <= 10 and caught.value.where == server.url


@pytest.mark.parametrize("trouble", [LOST, Reply(502), Reply(504), Reply(408)])
def test_what_may_have_changed_something_is_not_done_twice(trouble: Reply) -> None:
    with serving([trouble, Reply(body=1)]) as server, server.head() as head, pytest.raises(LostAnswer):
        head.post("/jobs", [])
    assert len(server.asked) == 1


@pytest.mark.parametrize("trouble", [Reply(503), Reply(429)])
def test_what_was_turned_away_is_tried_again(trouble: Reply) -> None:
    with serving([trouble, Reply(body=7)]) as server, server.head() as head:
        assert head.post("/jobs", []) == 7


def test_a_head_that_takes_no_connections_is_waited_for() -> None:
    slept: list[float] = []
    clock = [0.0]

    def sleep(seconds: float) -> None:
        slept.append(seconds)
        clock[0] += seconds

    with socket.socket() as deaf:
        deaf.bind(("127.0.0.1", 0))
        access = HeadAccess("http://127.0.0.1:%d" % deaf.getsockname()[1], "me")
        with (
            HeadNodeClient(access, lambda: "x", 5, now=lambda: clock[0], sleep=sleep) as head,
            pytest.raises(SubmitAgain, match="cannot be reached: Connection refused") as caught,
        ):
            head.post("/jobs", [])
    assert not isinstance(caught.value, LostAnswer) and slept == [0.5, 1.0, 2.0]


@pytest.mark.parametrize(
    ("reply", "kind", "says"),
    [
        (Reply(401), ConfigError, "refuses CORP\\me: wrong user or password"),
        (Reply(403, {"Message": "You do not have permission"}), SubmitRejected, "You do not have permission"),
        (Reply(404, {"message": "No such job"}), MissingResource, "No such job"),
        (Reply(400, "The job template Gold does not exist."), SubmitRejected, "`hpcpack.template` must be"),
        (Reply(500, {"ExceptionMessage": "boom"}), SubmitRejected, "boom"),
        (Reply(409, text=b"<html><title>Conflict here</title></html>"), SubmitRejected, "Conflict here"),
        (Reply(302, headers={"location": "/login"}), ConfigError, "redirects to another address"),
        (Reply(200, text=b"<html>Welcome to the proxy</html>"), ConfigError, "not an HPC Pack head node"),
        (Reply(418, text=b""), SubmitRejected, "teapot"),
    ],
)
def test_refusals_are_told_in_the_heads_words(reply: Reply, kind: type[Exception], says: str) -> None:
    with serving([reply]) as server, server.head() as head, pytest.raises(kind) as caught:
        head.get("/x")
    assert says.lower() in str(caught.value).lower() and "wörd" not in str(caught.value)


def test_a_host_that_does_not_exist_is_said_at_once() -> None:
    with HeadNodeClient(HeadAccess("https://no-such-host.invalid", "me"), lambda: "x", 3) as head:
        with pytest.raises((ConfigError, SubmitAgain)) as caught:
            head.get("/x")
        assert "no host has this name" in str(caught.value) or "cannot be reached" in str(caught.value)


@pytest.mark.parametrize(
    ("content", "says"),
    [(None, "`ca_file` cannot be read"), ("no certificate", "`ca_file` does not contain a certificate")],
)
def test_a_ca_file_that_is_none(tmp_path, content: str | None, says: str) -> None:
    path = tmp_path / "ca.pem"
    if content is not None:
        path.write_text(content)
    with pytest.raises(ConfigError, match=says) as caught:
        tls_context(HeadAccess("https://head", "me", ca_file=str(path)))
    assert caught.value.where == str(path)


def test_a_certificate_that_windows_has_exported(tmp_path: Path) -> None:
    """Its export has two formats, and editors add a byte order mark."""
    pem = trustme.CA().cert_pem.bytes()
    path = tmp_path / "head.cer"
    access = HeadAccess("https://head", "me", ca_file=str(path))
    for content in (pem.replace(b"\n", b"\r\n"), b"\xef\xbb\xbf" + pem):
        path.write_bytes(content)
        assert tls_context(access).cert_store_stats()["x509_ca"] == 1
    for content in (ssl.PEM_cert_to_DER_cert(pem.decode()), pem.decode().encode("utf-16")):
        path.write_bytes(content)
        with pytest.raises(ConfigError, match="does not contain a certificate in PEM format"):
            tls_context(access)


def test_a_head_that_does_not_finish_its_handshake() -> None:
    import socket

    with socket.socket() as silent:
        silent.bind(("127.0.0.1", 0))
        silent.listen()
        access = HeadAccess("https://127.0.0.1:%d" % silent.getsockname()[1], "me", verify=False)
        with HeadNodeClient(access, lambda: "x", 0) as head, pytest.raises(SubmitAgain) as caught:
            head.limit_patience(0.5)
            head.get("/x")
    assert "timed out" in caught.value.what and "_ssl" not in caught.value.what


def test_somebody_is_called_while_an_answer_is_waited_for() -> None:
    """And what it raises gives the question up."""
    import threading

    release = threading.Event()
    answered: list[bool] = []

    def answer(asked: Asked) -> Reply:
        answered.append(release.wait(60))
        return Reply(body=1)

    calls: list[list[bool]] = []

    def idle() -> None:
        calls.append(list(answered))
        if len(calls) == 3:
            raise KeyError("enough")

    with serving(answer) as server:
        head = HeadNodeClient(HeadAccess(server.url, "me"), lambda: "x", 10, idle)
        with head, pytest.raises(KeyError, match="enough"):
            head.get("/slow")
        release.set()
    assert calls == [[], [], []]


def test_nothing_shows_the_password() -> None:
    with serving([Reply(401)]) as server, server.head() as head:
        with pytest.raises(ConfigError) as caught:
            head.get("/x")
        assert "wörd" not in repr(head) + repr(head.access) + repr(caught.value)


def test_a_head_that_is_not_verified_is_spoken_of_once_before_the_password(capsys: pytest.CaptureFixture[str]) -> None:
    """By whichever client of this process is the first, and by none whose requests are verified."""
    asked: list[str] = []

    def password() -> str:
        asked.append(capsys.readouterr().err)
        return "secret"

    with serving([Reply(body=[])] * 3) as server:
        access = server.head().access
        for each in (access, access._replace(verify=False), access._replace(verify=False)):
            with HeadNodeClient(each, password) as head:
                head.get("/jobs")
    assert "notice: verify: the head's certificate is not verified" in asked[1] and server.url in asked[1]
    assert asked[::2] == ["", ""] and capsys.readouterr().err == ""
