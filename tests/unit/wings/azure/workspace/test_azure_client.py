"""The client of a workspace against a real HTTP server that answers badly: what is tried again, where tokens go."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from email.utils import formatdate

import pytest
from servers.scripted import LOST, Asked, Reply, Server, answers, serve

from worldsize.compute.http.errors import LostAnswer, TurnedAway
from worldsize.errors import ConfigError, SubmitAgain, SubmitRejected
from worldsize.wings.azure.workspace import client
from worldsize.wings.azure.workspace.client import API_VERSION, WorkspaceClient
from worldsize.wings.azure.workspace.errors import (
    ExistingResource,
    ExpiredAddress,
    MissingResource,
    SignInRefused,
)
from worldsize.wings.azure.workspace.settings import WorkspaceSettings

SCOPE = "/subscriptions/s/resourceGroups/g/providers/Microsoft.MachineLearningServices/workspaces/w"


class Workspace(Server):
    """`tokens`: with which argument a token was asked for; the first is `token-1`."""

    def __init__(self, answer: Callable[[Asked], Reply]) -> None:
        super().__init__(answer)
        self.tokens: list[bool] = []

    def token(self, renew: bool) -> str:
        self.tokens.append(renew)
        return "token-%d" % (1 + sum(self.tokens))

    def client(self, patience: float = 10.0) -> WorkspaceClient:
        settings = WorkspaceSettings("s", "g", "w", endpoint=self.url)
        return WorkspaceClient(settings, self.token, patience, clock=self.clock, sleep=self.sleep)

    def authorizations(self) -> list[str | None]:
        return [each.headers.get("authorization") for each in self.asked]


@contextmanager
def serving(answer: Callable[[Asked], Reply] | list[Reply]) -> Iterator[Workspace]:
    workspace = Workspace(answers(answer))
    with serve(workspace):
        yield workspace


def test_each_request_says_who_asks_and_by_which_version() -> None:
    with serving(lambda asked: Reply(body={"a": 1})) as server, server.client() as workspace:
        assert workspace.get("/jobs/a job", tag="x", nothing=None) == {"a": 1}
        assert workspace.put("/jobs/x", {"ü": 1}) == workspace.post("/jobs/x/cancel") == {"a": 1}
        assert workspace.delete("/jobs/x?") == {"a": 1}
        assert workspace.sent == 4
    got, put, posted, deleted = server.asked
    assert (got.path, got.params) == (SCOPE + "/jobs/a%20job", {"api-version": API_VERSION, "tag": "x"})
    assert (put.method, put.body, put.headers["content-type"]) == ("PUT", {"ü": 1}, "application/json")
    assert (posted.method, posted.body, deleted.path) == ("POST", None, SCOPE + "/jobs/x%3F")
    assert server.authorizations() == ["Bearer token-1"] * 4


def test_an_answer_may_be_empty_and_nothing_to_remove() -> None:
    with serving([Reply(202), Reply(204), Reply(404)]) as server, server.client() as workspace:
        assert workspace.post("/jobs/x/cancel") is workspace.delete("/jobs/x") is workspace.delete("/jobs/x") is None


@pytest.mark.parametrize("trouble", [Reply(500), Reply(502), Reply(503), Reply(504), Reply(429), Reply(408), LOST])
@pytest.mark.parametrize("method", ["get", "put", "delete"])
def test_what_may_be_sent_twice_is_sent_again_with_growing_pauses(method: str, trouble: Reply) -> None:
    with serving([trouble] * 4 + [Reply(body={"a": 1})]) as server, server.client(30) as workspace:
        assert getattr(workspace, method)("/jobs/x") == {"a": 1}
    assert server.slept == [0.5, 1.0, 2.0, 4.0] and server.tokens == [False] * 5


@pytest.mark.parametrize("trouble", [Reply(500), Reply(502), Reply(504), Reply(408), LOST])
def test_what_may_have_had_its_effect_is_not_sent_twice(trouble: Reply) -> None:
    with serving([trouble, Reply(body=1)]) as server, server.client() as workspace, pytest.raises(LostAnswer):
        workspace.post("/jobs/x/cancel")
    assert len(server.asked) == 1


@pytest.mark.parametrize("status", [429, 503])
@pytest.mark.parametrize("method", ["get", "put", "post"])
def test_the_service_says_when_to_come_again(method: str, status: int) -> None:
    busy = Reply(status, headers={"Retry-After": "7"})
    with serving([busy, Reply(status), busy, Reply(body=1)]) as server, server.client(60) as workspace:
        assert getattr(workspace, method)("/jobs/x") == 1
    assert server.slept == [7.0, 1.0, 7.0]


def test_it_says_so_by_a_date() -> None:
    def answer(asked: Asked) -> Reply:
        if len(server.asked) > 1:
            return Reply(body=1)
        return Reply(429, headers={"Retry-After": formatdate(time_now() + 3000, usegmt=True)})

    from time import time as time_now

    with serving(answer) as server, server.client(4000) as workspace:
        assert workspace.get("/jobs/x") == 1
    assert 2000 < server.slept[0] <= 3000


def test_patience_has_an_end() -> None:
    with serving(lambda asked: Reply(503)) as server, server.client(10) as workspace, pytest.raises(TurnedAway):
        workspace.get("/jobs/x")
    assert 5 <= sum(server.slept) <= 10
    later = Reply(429, {"error": {"code": "TooManyRequests", "message": "Slowly."}}, {"Retry-After": "600"})
    with (
        serving([later]) as server,
        server.client(10) as workspace,
        pytest.raises(TurnedAway, match="Slowly") as caught,
    ):
        workspace.get("/jobs/x")
    assert server.slept == [] and caught.value.pause == 600.0


def test_a_token_that_ends_in_the_middle_is_renewed_once() -> None:
    def answer(asked: Asked) -> Reply:
        return Reply(body=1) if asked.headers["authorization"] == "Bearer token-2" else Reply(401)

    with serving(answer) as server, server.client() as workspace:
        for method in (workspace.get, workspace.put, workspace.post):
            assert method("/jobs/x") == 1
    assert server.tokens == [False, True, False, False] and server.slept == []
    with serving(lambda asked: Reply(401)) as server, server.client() as workspace, pytest.raises(SignInRefused):
        workspace.get("/jobs/x")
    assert server.tokens == [False, True]


def test_a_list_has_pages_and_an_end(monkeypatch: pytest.MonkeyPatch) -> None:
    def answer(asked: Asked) -> Reply:
        number = int(asked.params.get("$skip", 0))
        link = "%s%s/jobs?api-version=x&$skip=%d" % (server.url, SCOPE, number + 1)
        return Reply(body={"value": [{"number": number}], **({"nextLink": link} if number < 3 else {})})

    with serving(answer) as server, server.client() as workspace:
        listed = workspace.list_all("/jobs", tag="a")
        assert next(listed) == {"number": 0} and workspace.sent == 1
        assert [each["number"] for each in listed] == [1, 2, 3]
    assert server.authorizations() == ["Bearer token-1"] * 4
    endless = lambda asked: Reply(body={"value": [], "nextLink": server.url + "/?same"})  # noqa: E731
    with serving(endless) as server, server.client() as workspace, pytest.raises(SubmitRejected, match="does not end"):
        list(workspace.list_all("/jobs"))


@pytest.mark.parametrize(
    "link", ["http://127.0.0.1:1/jobs", "https://{host}/jobs", "http://evil.test/x?sig=hunter2", "http://[", 5]
)
def test_a_list_that_leads_elsewhere(link: object) -> None:
    def answer(asked: Asked) -> Reply:
        host = server.url.partition("://")[2]
        return Reply(body={"value": [], "nextLink": str(link).format(host=host) if isinstance(link, str) else link})

    with (
        serving(answer) as server,
        server.client() as workspace,
        pytest.raises(SubmitRejected, match="at another host") as caught,
    ):
        list(workspace.list_all("/jobs"))
    assert len(server.asked) == 1 and "hunter2" not in str(caught.value)


@pytest.mark.parametrize("body", [[], {"value": 5}, {"value": [5]}, "text", {}])
def test_a_list_that_is_none(body: object) -> None:
    with (
        serving([Reply(body=body)]) as server,
        server.client() as workspace,
        pytest.raises(SubmitRejected, match="is not a list"),
    ):
        list(workspace.list_all("/jobs"))


def history(server: Workspace, asked: Asked) -> Reply:
    if asked.path == SCOPE:
        return Reply(body={"properties": {"discoveryUrl": server.url + "/discovery"}})
    if asked.path == "/discovery":
        return Reply(body={"api": server.url + "/", "history": "unused"})
    return Reply(body={"path": asked.path})


def test_the_run_history_is_where_the_workspace_says() -> None:
    with serving(lambda asked: history(server, asked)) as server, server.client() as workspace:
        for _ in range(2):
            assert workspace.run_history("/runs/x/details") == {"path": "/history/v1.0" + SCOPE + "/runs/x/details"}
    assert server.authorizations() == ["Bearer token-1", None, "Bearer token-1", "Bearer token-1"]


@pytest.mark.parametrize(
    "address", [None, 5, "", "ftp://x", "https://other.scheme", "plain", "http://[x", "http://h:x"]
)
def test_a_discovery_that_tells_nothing(address: object) -> None:
    """The tests' own server is an http one: what is of another kind is refused, as http is by an https one."""
    with (
        serving([Reply(body={"properties": {"discoveryUrl": address}})]) as server,
        server.client() as workspace,
        pytest.raises(SubmitRejected, match="is not at an https address"),
    ):
        workspace.run_history("/runs/x")


def test_signed_addresses_are_asked_as_they_are_and_without_a_token(monkeypatch: pytest.MonkeyPatch) -> None:
    content, query = b"0123456789", "sv=2023-11-03&sp=r&sig=a%2Bb%2Fc%3D&rscd=a+b"

    def answer(asked: Asked) -> Reply:
        start, end = map(int, asked.headers["range"].removeprefix("bytes=").split("-"))
        return Reply(206, text=content[start : end + 1]) if start < len(content) else Reply(416)

    monkeypatch.setattr(client, "PIECE", 4)
    with serving(answer) as server, server.client() as workspace:
        url = "%s/c/a%%20log.txt?%s" % (server.url, query)
        assert [workspace.get_url(url, start) for start in (0, 4, 8, 10)] == [b"0123", b"4567", b"89", b""]
    assert {(each.path, each.query) for each in server.asked} == {("/c/a%20log.txt", query)}
    assert server.authorizations() == [None] * 4 and server.tokens == []
    with serving(lambda asked: Reply(200, text=content)) as server, server.client() as workspace:
        assert workspace.get_url(server.url + "/c/log", 3) == b"3456", "of a server that knows no ranges"


def test_signatures_are_not_told_and_redirects_not_followed() -> None:
    failed = Reply(403, headers={"x-ms-error-code": "AuthenticationFailed"})
    away = Reply(302, headers={"location": "http://127.0.0.1:1/?sig=hunter2"})
    for reply, kind in (
        (failed, ExpiredAddress),
        (away, ConfigError),
        (Reply(404), MissingResource),
        (LOST, SubmitAgain),
    ):
        with serving([reply]) as server, server.client(0) as workspace, pytest.raises(kind) as caught:
            workspace.get_url(server.url + "/c/log?sig=hunter2")
        assert "hunter2" not in str(caught.value) + repr(caught.value)
    with serving([away]) as server, server.client(0) as workspace, pytest.raises(ConfigError, match="redirects"):
        workspace.get("/jobs/x")


def test_refusals_are_the_services_words() -> None:
    body = {"error": {"code": "UserError", "message": "The job exists."}}
    with (
        serving([Reply(409, body)]) as server,
        server.client() as workspace,
        pytest.raises(ExistingResource, match="The job exists") as caught,
    ):
        workspace.put("/jobs/x", {})
    assert caught.value.where == "PUT /jobs/x" and "token-1" not in repr(caught.value) + repr(workspace)
    with (
        serving([Reply(text=b"<title>Sign in to the proxy</title>")]) as server,
        server.client() as workspace,
        pytest.raises(ConfigError, match="is not Azure's resource manager: Sign in to the proxy"),
    ):
        workspace.get("/jobs/x")


def test_somebody_is_called_while_a_token_and_an_answer_are_waited_for() -> None:
    """And what it raises gives the question up."""
    from threading import Event

    calls: list[int] = []
    release = Event()

    def idle() -> None:
        calls.append(1)
        if len(calls) == 3:
            raise KeyError("enough")

    def token(renew: bool) -> str:
        release.wait(60)
        return "t"

    with serving([]) as server:
        settings = WorkspaceSettings("s", "g", "w", endpoint=server.url)
        with WorkspaceClient(settings, token, 10, idle) as workspace, pytest.raises(KeyError, match="enough"):
            workspace.get("/jobs/x")
        release.set()
    assert server.asked == []


@pytest.mark.parametrize(
    ("name", "value", "where"),
    [("SSL_CERT_FILE", "/no/such/file", "SSL_CERT_FILE"), ("HTTPS_PROXY", "gopher://me:hunter2@host", "HTTPS_PROXY")],
)
def test_an_environment_that_cannot_be_used(monkeypatch: pytest.MonkeyPatch, name: str, value: str, where: str) -> None:
    monkeypatch.setenv(name, value)
    with serving([]) as server, server.client() as workspace, pytest.raises(ConfigError) as caught:
        workspace.get("/jobs/x")
    assert caught.value.where == where and "hunter2" not in str(caught.value)


def test_without_httpx(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "httpx", None)
    with (
        WorkspaceClient(WorkspaceSettings("s", "g", "w"), lambda renew: "t", 0) as workspace,
        pytest.raises(ConfigError, match="needs httpx") as caught,
    ):
        workspace.get("/jobs/x")
    assert caught.value.hint == "pip install 'worldsize[azure]'"
