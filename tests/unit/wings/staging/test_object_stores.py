"""abfss and wasbs: Azure's own client, through adlfs, against a stand-in that speaks as much of the Blob service's REST
as reading needs."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from urllib.parse import parse_qs, urlsplit

import pytest
from recorded_progress import RecordedProgress
from webserver import Reply, Site, serve

from worldsize.errors import UsageError, WorldsizeError
from worldsize.wings.staging.fetch import DataStore

pytestmark = pytest.mark.slow  # not where adlfs is missing

BLOBS = {"set/train/a.bin": os.urandom(300_000), "set/train/deep/b.txt": b"b", "set/test.txt": b"test"}


def blobs(method: str, path: str, headers: Mapping[str, str]) -> Reply | None:
    parts = urlsplit(path)
    query = {name: values[0] for name, values in parse_qs(parts.query, keep_blank_values=True).items()}
    if query.get("comp") == "list":
        return _listed(query.get("prefix", ""), query.get("delimiter", ""))
    if query.get("restype") == "container":
        return 200, {"x-ms-version": "2023-11-03"}, b""
    content = BLOBS.get(parts.path.removeprefix("/acct/cont/"))
    if content is None:
        return 404, {"x-ms-error-code": "BlobNotFound"}, b""
    more = _properties(content)
    part = re.fullmatch(r"bytes=(\d+)-(\d*)", headers.get("x-ms-range") or headers.get("range") or "")
    if part and method == "GET":
        first, last = int(part[1]), min(int(part[2] or len(content)), len(content) - 1)
        return 206, {**more, "Content-Range": "bytes %d-%d/%d" % (first, last, len(content))}, content[first : last + 1]
    return 200, {**more, **({"Content-Length": str(len(content))} if method == "HEAD" else {})}, content


def _properties(content: bytes) -> dict[str, str]:
    return {
        "ETag": '"0x%d"' % len(content),
        "Last-Modified": "Sat, 21 Nov 2026 10:31:00 GMT",
        "Content-Type": "application/octet-stream",
        "x-ms-blob-type": "BlockBlob",
        "x-ms-creation-time": "Sat, 21 Nov 2026 10:31:00 GMT",
        "Accept-Ranges": "bytes",
    }


def _listed(prefix: str, delimiter: str) -> Reply:
    entries: dict[str, str] = {}
    for name, content in BLOBS.items():
        rest = name[len(prefix) :]
        if not name.startswith(prefix):
            continue
        if delimiter and delimiter in rest:
            folder = prefix + rest.partition(delimiter)[0] + delimiter
            entries[folder] = "<BlobPrefix><Name>%s</Name></BlobPrefix>" % folder
            continue
        properties = "".join(
            "<%s>%s</%s>" % (key, value, key)
            for key, value in {
                "Etag": "0x%d" % len(content),
                "Last-Modified": "Sat, 21 Nov 2026 10:31:00 GMT",
                "Content-Length": str(len(content)),
                "BlobType": "BlockBlob",
            }.items()
        )
        entries[name] = "<Blob><Name>%s</Name><Properties>%s</Properties></Blob>" % (name, properties)
    head = '<?xml version="1.0" encoding="utf-8"?><EnumerationResults ContainerName="cont"><Blobs>'
    body = head + "".join(entries.values()) + "</Blobs><NextMarker /></EnumerationResults>"
    return 200, {"Content-Type": "application/xml"}, body.encode()


@pytest.fixture
def azure(monkeypatch: pytest.MonkeyPatch) -> Iterator[Site]:
    pytest.importorskip("adlfs")
    with serve() as site:
        site.acts = blobs
        for name in [name for name in os.environ if name.startswith("AZURE_STORAGE_")]:
            monkeypatch.delenv(name)
        known = "DefaultEndpointsProtocol=http;AccountName=acct;AccountKey=a2V5;BlobEndpoint=%s/acct;" % site.url
        monkeypatch.setenv("AZURE_STORAGE_CONNECTION_STRING", known)
        yield site


@pytest.mark.parametrize("base", ["abfss://cont@acct.dfs.core.windows.net", "wasbs://cont@acct.blob.core.windows.net"])
def test_files_and_folders(azure: Site, base: str, tmp_path: Path) -> None:
    told = RecordedProgress()
    data = DataStore(str(tmp_path / "data"), told)
    assert Path(data.fetch(base + "/set/test.txt").path).read_bytes() == b"test"
    for _ in range(2):
        folder = Path(data.fetch(base + "/set/train", what="inputs.train").path)
        assert (folder / "a.bin").read_bytes() == BLOBS["set/train/a.bin"]
        assert (folder / "deep" / "b.txt").read_bytes() == b"b"
    fetched = [
        asked for asked in azure.asked if asked.method == "GET" and asked.path.startswith("/acct/cont/set/train/")
    ]
    assert len(fetched) == 2, "the second time nothing but the listing is asked for"
    assert told.transfers[-1][0] == "inputs.train"
    with pytest.raises(UsageError, match="no such file or folder"):
        data.fetch(base + "/set/nothing")


def test_trouble_is_told_without_secrets(azure: Site, tmp_path: Path) -> None:
    azure.acts = None
    azure.says = [403] * 20
    with pytest.raises(WorldsizeError) as refused:
        DataStore(str(tmp_path / "data"), RecordedProgress()).fetch(
            "abfss://cont@acct.dfs.core.windows.net/set/test.txt"
        )
    assert "a2V5" not in str(refused.value) and "test.txt" in str(refused.value)
