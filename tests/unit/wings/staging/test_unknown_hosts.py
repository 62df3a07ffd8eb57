"""A host name that DNS does not know is called that, and not a matter of credentials or of a network that is down."""

from __future__ import annotations

import socket
from typing import Any
from urllib.error import URLError

import pytest

from worldsize.errors import UsageError
from worldsize.wings.staging import http
from worldsize.wings.staging.object_stores import RemoteFiles, service_address

UNKNOWN = socket.gaierror(socket.EAI_NONAME, "Name or service not known")


def test_a_download_is_not_tried_again(monkeypatch: pytest.MonkeyPatch, tmp_path: Any) -> None:
    class Opener:
        def open(self, *_: Any, **__: Any) -> None:
            raise URLError(UNKNOWN)

    monkeypatch.setattr("urllib.request.build_opener", lambda *_: Opener())
    slept: list[float] = []
    with pytest.raises(UsageError, match=r"no host is named data\.invalid") as told:
        http.download("https://data.invalid/a?sig=x", str(tmp_path / "a"), None, lambda *_: None, sleep=slept.append)
    assert slept == [] and "address" in (told.value.hint or "")


@pytest.mark.parametrize("number", [socket.EAI_AGAIN, socket.EAI_FAIL])
def test_what_may_pass_is_no_wrong_name(number: int) -> None:
    http.refuse_unknown_host(socket.gaierror(number, "try again"), "https://data.invalid/a")
    http.refuse_unknown_host(ConnectionRefusedError(), "https://data.invalid/a")


def test_which_service_is_asked() -> None:
    dfs = "https://account.dfs.core.windows.net"
    assert service_address("abfss://c@account.dfs.core.windows.net/x", {}) == dfs
    assert service_address("wasbs://c@account.blob.core.windows.net/x", {}) == dfs
    assert service_address("s3://bucket/x", {}) is None
    assert service_address("s3://bucket/x", {"AWS_ENDPOINT_URL": "https://s3.invalid"}) == "https://s3.invalid"


def test_what_libraries_call_credentials(monkeypatch: pytest.MonkeyPatch) -> None:
    files = object.__new__(RemoteFiles)
    files._uri = "abfss://c@account.dfs.core.windows.net/x"

    def refuse(*_: Any) -> None:
        raise UNKNOWN

    monkeypatch.setattr(socket, "getaddrinfo", refuse)
    error = files._fetch_error(PermissionError("no credentials"))
    assert error.what.startswith("no host is named account.dfs.core.windows.net")
    monkeypatch.setattr(socket, "getaddrinfo", lambda *_: [])
    assert "permission denied" in files._fetch_error(PermissionError("no credentials")).what
