"""Blob Storage: put, blocks, append, get with ranges, head, metadata, list, delete; containers.

A request needs a shared access signature that has not expired, or an `Authorization` of the account's key or of a
login. Signatures are not computed again.
"""

from __future__ import annotations

import os
import xml.etree.ElementTree as ET
from collections.abc import Callable, Mapping
from datetime import datetime, timezone
from email.utils import formatdate
from xml.sax.saxutils import escape, quoteattr

from azureml_double.blob_store import Blob, BlobStore
from azureml_double.web import Answer, Refusal, Request

_META = "x-ms-meta-"


Login = Callable[[Request], None]


def answer(store: BlobStore, request: Request, check_login: Login | None = None) -> Answer:
    """To a request whose host is a storage account's. `check_login`: of an account that takes logins, and what was
    signed for them, alone; it refuses those that nobody has. Raises Refusal."""
    _authorize(request, check_login)
    container, _, name = request.path.lstrip("/").partition("/")
    operation = (request.method, request.query.get("comp", ""))
    if request.query.get("restype") == "container":
        return _answer_of_container(store, request, container, operation)
    if not name:
        raise Refusal(400, "InvalidUri", "The requested URI does not represent any resource on the server.")
    if request.method in ("GET", "HEAD") and not operation[1]:
        return _content(store.get(container, name), request)
    if operation == ("PUT", "block"):
        store.stage(container, name, request.query.get("blockid", ""), request.body)
        return Answer(201, headers=_common())
    if request.method == "DELETE":
        store.delete(container, name)
        return Answer(202, headers=_common())
    return _write(store, request, container, name, operation[1])


def _write(store: BlobStore, request: Request, container: str, name: str, comp: str) -> Answer:
    metadata = {key[len(_META) :]: value for key, value in request.headers.items() if key.startswith(_META)}
    new = request.headers.get("if-none-match") == "*"
    if request.method != "PUT":
        raise Refusal(405, "UnsupportedHttpVerb", "The resource doesn't support specified Http Verb.")
    if comp == "blocklist":
        blob = store.commit(container, name, _blocks(request.body), metadata, new)
    elif comp == "metadata":
        return Answer(200, headers=_properties(store.set_metadata(container, name, metadata)))
    elif comp == "appendblock":
        blob = store.append(container, name, request.body)
    elif comp:
        raise Refusal(400, "InvalidQueryParameterValue", "The double knows no comp=%s." % comp)
    else:
        kind = request.headers.get("x-ms-blob-type", "")
        if kind not in ("BlockBlob", "AppendBlob"):
            raise Refusal(400, "MissingRequiredHeader", "x-ms-blob-type: BlockBlob or AppendBlob.")
        blob = store.put(container, name, request.body, metadata, kind, new)
    return Answer(201, headers={**_properties(blob), "x-ms-request-server-encrypted": "true"})


def _authorize(request: Request, check_login: Login | None) -> None:
    if check_login is not None and not request.query.get("skoid"):
        if request.query.get("sig") or request.headers.get("authorization", "").startswith("SharedKey "):
            text = "Key based authentication is not permitted on this storage account."
            raise Refusal(403, "KeyBasedAuthenticationNotPermitted", text)
        return check_login(request)
    if request.headers.get("authorization", "").startswith(("SharedKey ", "Bearer ")):
        return
    if not request.query.get("sig"):
        raise Refusal(404, "ResourceNotFound", "The specified resource does not exist.")  # as for the public
    try:
        end = datetime.fromisoformat(request.query.get("se", "").replace("Z", "+00:00"))
    except ValueError:
        end = datetime.fromtimestamp(0, timezone.utc)
    if end.replace(tzinfo=end.tzinfo or timezone.utc) < datetime.now(timezone.utc):
        text = "Server failed to authenticate the request. Signature not valid in the specified time frame."
        raise Refusal(403, "AuthenticationFailed", text)
    needed = "r" if request.method in ("GET", "HEAD") else "w"
    if request.query.get("comp") == "list":
        needed = "l"
    if needed not in request.query.get("sp", ""):
        text = "This request is not authorized to perform this operation using this permission."
        raise Refusal(403, "AuthorizationPermissionMismatch", text)


def _answer_of_container(store: BlobStore, request: Request, name: str, operation: tuple[str, str]) -> Answer:
    if operation == ("PUT", ""):
        store.make_container(name)
        return Answer(201, headers=_common())
    store.container(name)
    if operation == ("GET", "list"):
        return Answer(200, _listing(store, name, request), {**_common(), "Content-Type": "application/xml"})
    return Answer(200, headers=_common())


def _blocks(body: bytes) -> list[str]:
    try:
        return [each.text or "" for each in ET.fromstring(body)]
    except ET.ParseError:
        raise Refusal(400, "InvalidXmlDocument", "XML specified is not syntactically valid.") from None


def _content(blob: Blob, request: Request) -> Answer:
    """With a range: 206, and what there is of it. A log grows while it is read, so its size is read once."""
    headers = _properties(blob)
    first, last = 0, blob.size - 1
    asked = request.headers.get("x-ms-range") or request.headers.get("range")
    if asked and request.method == "GET":
        try:
            start, _, end = asked.partition("=")[2].partition("-")
            first, last = int(start), min(int(end or last), last)
        except ValueError:
            raise Refusal(400, "InvalidHeaderValue", "The range is invalid.") from None
        if first >= blob.size:
            headers = {"Content-Range": "bytes */%d" % blob.size}
            raise Refusal(416, "InvalidRange", "The range specified is invalid for the current size.", headers)
        headers["Content-Range"] = "bytes %d-%d/%d" % (first, last, blob.size)
    if request.method == "HEAD":
        return Answer(200, headers={**headers, "Content-Length": str(blob.size)})
    content = b""
    if os.path.isfile(blob.path):
        with open(blob.path, "rb") as file:
            file.seek(first)
            content = file.read(last + 1 - first)
    return Answer(206 if asked else 200, content, headers)


def _common() -> dict[str, str]:
    return {"x-ms-version": "2023-11-03", "ETag": '"0x0"', "Last-Modified": formatdate(usegmt=True)}


def _properties(blob: Blob) -> dict[str, str]:
    return {
        **_common(),
        "ETag": blob.etag,
        "Last-Modified": formatdate(blob.changed, usegmt=True),
        "Content-Type": "application/octet-stream",
        "Accept-Ranges": "bytes",
        "x-ms-blob-type": blob.kind,
        "x-ms-server-encrypted": "true",
        **{_META + name: value for name, value in blob.metadata.items()},
    }


def _listing(store: BlobStore, container: str, request: Request) -> bytes:
    """A page of `maxresults` blobs and prefixes after the marker, which is the last name of the page before."""
    prefix, marker = request.query.get("prefix", ""), request.query.get("marker", "")
    delimiter = request.query.get("delimiter", "")
    try:
        most = max(1, min(int(request.query.get("maxresults", 5000)), 5000))
    except ValueError:
        raise Refusal(400, "OutOfRangeQueryParameterValue", "maxresults is a number.") from None
    rows: dict[str, str] = {}
    for blob in store.list(container, prefix):
        head, found, _ = blob.name[len(prefix) :].partition(delimiter) if delimiter else ("", "", "")
        if found:
            name = prefix + head + delimiter
            rows[name] = "<BlobPrefix><Name>%s</Name></BlobPrefix>" % escape(name)
        else:
            rows[blob.name] = _row(blob, "metadata" in request.query.get("include", ""))
    names = [name for name in sorted(rows) if name > marker]
    page = names[:most]
    text = '<?xml version="1.0" encoding="utf-8"?><EnumerationResults ServiceEndpoint=%s ContainerName=%s>'
    text %= (quoteattr("https://%s/" % request.host), quoteattr(container))
    text += "<Prefix>%s</Prefix><Blobs>%s</Blobs>" % (escape(prefix), "".join(rows[name] for name in page))
    return (text + "<NextMarker>%s</NextMarker></EnumerationResults>" % escape(_next(names, page))).encode()


def _next(names: list[str], page: list[str]) -> str:
    return page[-1] if len(page) < len(names) else ""


def _row(blob: Blob, with_metadata: bool) -> str:
    properties: Mapping[str, str] = {
        "Last-Modified": formatdate(blob.changed, usegmt=True),
        "Etag": blob.etag.strip('"'),
        "Content-Length": str(blob.size),
        "Content-Type": "application/octet-stream",
        "BlobType": blob.kind,
        "LeaseStatus": "unlocked",
        "LeaseState": "available",
        "ServerEncrypted": "true",
    }
    text = "<Blob><Name>%s</Name><Properties>%s</Properties>" % (escape(blob.name), _elements(properties))
    return text + ("<Metadata>%s</Metadata>" % _elements(blob.metadata) if with_metadata else "") + "</Blob>"


def _elements(values: Mapping[str, str]) -> str:
    return "".join("<%s>%s</%s>" % (name, escape(value), name) for name, value in values.items())
