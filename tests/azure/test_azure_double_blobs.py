"""Blob storage as clients use it: blocks, ranges, metadata, pages of lists, and names that are none."""

from __future__ import annotations

import os
import uuid
import xml.etree.ElementTree as ET
from collections.abc import Callable, Iterator
from typing import Any
from urllib.parse import quote

import httpx
import pytest
from azureml_double.double import Double

pytestmark = pytest.mark.exhaustive

Ask = Callable[..., Any]


@pytest.fixture
def ask(double: Double) -> Iterator[Ask]:
    """Requests in a new container, with the signature that a pending upload gives; returns `httpx.Response`s."""
    pending = double.ask("POST", "/codes/any/versions/%s/startPendingUpload" % uuid.uuid4(), {})
    url = httpx.URL(pending["blobReferenceForConsumption"]["credential"]["sasUri"])
    with httpx.Client(verify=double.trust(), headers={"Host": url.netloc.decode()}) as client:

        def request(method: str, name: str = "", *, quoted: str = "", body: bytes = b"", **headers: str) -> Any:
            query = "%s&%s" % (url.query.decode(), quoted) if quoted else url.query.decode()
            place = "%s%s/%s?%s" % (double.url, url.path, quote(name).replace(".", "%2E"), query)
            given = {key.replace("_", "-"): value for key, value in headers.items()}
            return client.request(method, place.replace("/?", "?"), content=body, headers=given)

        yield request


def put(ask: Ask, name: str, body: bytes = b"x", **headers: str) -> int:
    status: int = ask("PUT", name, body=body, x_ms_blob_type="BlockBlob", **headers).status_code
    return status


def names(answer: Any) -> list[str]:
    return [each.text or "" for each in ET.fromstring(answer.content).iter("Name")]


def test_a_blob_is_put_once_where_that_is_asked_for(ask: Ask) -> None:
    assert put(ask, "a/b c.txt", b"first", x_ms_meta_k="v") == 201
    again = ask("PUT", "a/b c.txt", body=b"x", x_ms_blob_type="BlockBlob", If_None_Match="*")
    assert (again.status_code, again.headers["x-ms-error-code"]) == (409, "BlobAlreadyExists")
    head = ask("HEAD", "a/b c.txt")
    assert (head.headers["Content-Length"], head.headers["x-ms-meta-k"]) == ("5", "v")
    assert ask("PUT", "a/b c.txt", quoted="comp=metadata", x_ms_meta_other="w").status_code == 200
    head = ask("HEAD", "a/b c.txt")
    assert "x-ms-meta-k" not in head.headers and head.headers["x-ms-meta-other"] == "w"
    assert ask("GET", "a/b c.txt").content == b"first"
    assert ask("DELETE", "a/b c.txt").status_code == 202
    assert ask("GET", "a/b c.txt").headers["x-ms-error-code"] == "BlobNotFound"


def test_ranges_end_where_the_blob_does(ask: Ask) -> None:
    put(ask, "b", b"0123456789")
    part = ask("GET", "b", Range="bytes=2-4")
    assert (part.status_code, part.content, part.headers["Content-Range"]) == (206, b"234", "bytes 2-4/10")
    assert ask("GET", "b", x_ms_range="bytes=8-100").content == b"89"
    assert ask("GET", "b", Range="bytes=7-").content == b"789"
    assert ask("GET", "b", Range="bytes=10-").headers["x-ms-error-code"] == "InvalidRange"
    assert ask("GET", "b", Range="bytes=x").status_code == 400


def test_a_blob_of_blocks_is_there_when_they_are_committed(ask: Ask) -> None:
    for block, body in (("QQ==", b"one"), ("Qg==", b"two")):
        assert ask("PUT", "big", quoted="comp=block&blockid=" + quote(block), body=body).status_code == 201
    assert ask("GET", "big").status_code == 404
    order = "<BlockList>%s</BlockList>" % "".join("<Latest>%s</Latest>" % each for each in ("Qg==", "QQ=="))
    assert ask("PUT", "big", quoted="comp=blocklist", body=order.encode()).status_code == 201
    assert ask("GET", "big").content == b"twoone"
    missing = ask("PUT", "big", quoted="comp=blocklist", body=order.encode())
    assert missing.headers["x-ms-error-code"] == "InvalidBlockList"
    assert ask("PUT", "big", quoted="comp=blocklist", body=b"<").headers["x-ms-error-code"] == "InvalidXmlDocument"


def test_what_is_appended_comes_after(ask: Ask) -> None:
    assert ask("PUT", "log", x_ms_blob_type="AppendBlob").status_code == 201
    for body in (b"a", b"b"):
        assert ask("PUT", "log", quoted="comp=appendblock", body=body).status_code == 201
    assert ask("GET", "log").content == b"ab"


def test_lists_come_in_pages_with_prefixes_and_metadata(ask: Ask) -> None:
    for name in ("a/1", "a/2", "b&<", "c"):
        put(ask, name, x_ms_meta_n=str(len(name)))
    list_all = "restype=container&comp=list"
    assert names(ask("GET", quoted=list_all)) == ["a/1", "a/2", "b&<", "c"]
    assert names(ask("GET", quoted=list_all + "&prefix=a/")) == ["a/1", "a/2"]
    assert names(ask("GET", quoted=list_all + "&delimiter=/")) == ["a/", "b&<", "c"]
    page = ask("GET", quoted=list_all + "&maxresults=3")
    marker = ET.fromstring(page.content).findtext("NextMarker")
    assert names(ask("GET", quoted="%s&marker=%s" % (list_all, quote(marker or "")))) == ["c"]
    metadata = ET.fromstring(ask("GET", quoted=list_all + "&include=metadata").content).iter("n")
    assert [each.text for each in metadata] == ["3", "3", "3", "1"]


@pytest.mark.parametrize("name", ["../x", "a/../../x", "a//b", "/etc/passwd", "a/./b", "x" * 300, "a\0", "..", "a/.."])
def test_names_that_are_none_reach_no_file(ask: Ask, double: Double, name: str) -> None:
    answer = ask("PUT", name, body=b"x", x_ms_blob_type="BlockBlob")
    assert (answer.status_code, answer.headers["x-ms-error-code"]) == (400, "InvalidResourceName")
    assert ask("GET", name).status_code == 400
    assert not os.path.exists(os.path.join(double.folder, "blobs", "x"))
    assert not os.path.exists(os.path.join(double.folder, "x"))


def test_a_container_of_no_name_is_not_found(double: Double) -> None:
    host = "%s.blob.%s" % (double.account, double.suffix)
    for container in ("..", "Blocks", "none-such", "a_b"):
        place = "%s/%s/x?sig=x&sp=racwdl&se=2999-01-01T00:00:00Z" % (double.url, container.replace(".", "%2E"))
        answer = httpx.get(place, headers={"Host": host}, verify=double.trust())
        assert answer.status_code in (400, 404)
