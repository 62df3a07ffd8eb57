"""Servers and archives that would fill the disk, and addresses that others could answer for."""

from __future__ import annotations

import hashlib
import io
import os
import socket
import ssl
import tarfile
import threading
import zipfile
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path

import pytest
from driver import Cli
from webserver import Site, serve

from worldsize.errors import UsageError
from worldsize.wings.staging import archives, limits
from worldsize.wings.staging.fetch import DataStore
from worldsize_hpcpack_simulator.certificate import issue

CHUNK = b"x" * (1 << 20)
FLOOR = 1 << 20
"""In place of a gigabyte, which would take a test seconds to write."""


class Told:
    def __init__(self) -> None:
        self.notices: list[str] = []

    def notice(self, text: str, id: str = "") -> None:
        self.notices.append(text)

    def transfer(self, what: str, done: int, total: int) -> None:
        pass


@pytest.fixture
def told() -> Told:
    return Told()


@pytest.fixture
def data(tmp_path: Path, told: Told) -> DataStore:
    return DataStore(str(tmp_path / "data"), told)


@pytest.fixture
def site() -> Iterator[Site]:
    with serve() as site:
        yield site


@pytest.fixture
def low_floor(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(limits, "MIN_UNPACK_LIMIT", FLOOR)


class Endless:
    """A server that says no length and sends until nobody reads any more; `sent` counts."""

    def __init__(self) -> None:
        self.sent = 0
        self._socket = socket.create_server(("127.0.0.1", 0))
        self.url = "http://127.0.0.1:%d" % self._socket.getsockname()[1]
        self._thread = threading.Thread(target=self._serve, daemon=True)
        self._thread.start()

    def _serve(self) -> None:
        while True:
            try:
                connection = self._socket.accept()[0]
            except OSError:
                return
            with connection:
                try:
                    connection.recv(1 << 16)
                    connection.sendall(b"HTTP/1.1 200 OK\r\nConnection: close\r\n\r\n")
                    while self.sent < 200 * len(CHUNK):
                        connection.sendall(CHUNK)
                        self.sent += len(CHUNK)
                except OSError:
                    pass

    def close(self) -> None:
        self._socket.shutdown(socket.SHUT_RDWR)
        self._socket.close()
        self._thread.join()


@pytest.fixture
def endless() -> Iterator[Endless]:
    server = Endless()
    yield server
    server.close()


def sizes(root: Path) -> int:
    return sum(path.stat().st_size for path in root.rglob("*") if path.is_file())


def test_a_download_without_an_end(endless: Endless, data: DataStore, tmp_path: Path) -> None:
    """Found by review: it went on until the disk was full."""
    with pytest.raises(UsageError, match=r"is larger than max_size, 4 MB") as refused:
        data.fetch(endless.url + "/data.bin", max_size=4_000_000)
    assert refused.value.where == endless.url + "/data.bin" and refused.value.hint
    assert endless.sent < 100 * len(CHUNK) and sizes(tmp_path) < len(CHUNK)


def test_a_length_that_is_too_large_and_what_is_here_already(site: Site, data: DataStore, tmp_path: Path) -> None:
    site.files["/data.bin"] = CHUNK * 3
    url, most = site.url + "/data.bin", 2 * len(CHUNK)
    digest = hashlib.sha256(CHUNK * 3).hexdigest()
    for _ in range(2):
        with pytest.raises(UsageError, match="is larger than max_size"):
            data.fetch(url, max_size=most)
        assert sizes(tmp_path) < len(CHUNK)
    assert data.fetch(url, max_size=3 * len(CHUNK)).bytes == 3 * len(CHUNK)
    for sha256 in (None, digest):
        with pytest.raises(UsageError, match="is larger than max_size"):
            data.fetch(url, sha256=sha256, max_size=most)


@pytest.mark.slow
def test_other_services(data: DataStore) -> None:
    import fsspec

    memory = fsspec.filesystem("memory")
    memory.pipe({"/set/a.bin": CHUNK, "/set/b.bin": CHUNK})
    for uri in ("memory://set/a.bin", "memory://set"):
        with pytest.raises(UsageError, match="is larger than max_size"):
            data.fetch(uri, folder=True, max_size=len(CHUNK) - 1)
    assert data.fetch("memory://set", folder=True, max_size=2 * len(CHUNK)).bytes == 2 * len(CHUNK)


def zeros_in_a_zip(size: int) -> bytes:
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("zeros", bytes(size))
    return buffer.getvalue()


def zeros_in_a_tar(size: int, members: int = 1) -> bytes:
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w:xz") as archive:
        for number in range(members):
            info = tarfile.TarInfo("zeros%d" % number)
            info.size = size
            archive.addfile(info, io.BytesIO(bytes(size)))
    return buffer.getvalue()


BOMBS = {
    "bomb.zip": zeros_in_a_zip(16 * FLOOR),
    "bomb.tar.xz": zeros_in_a_tar(16 * FLOOR),
    "empty.tar.xz": zeros_in_a_tar(0, 2000),
}


@pytest.mark.parametrize("name", BOMBS)
def test_an_archive_that_grows_without_measure(
    low_floor: None, site: Site, data: DataStore, tmp_path: Path, name: str
) -> None:
    """Found by review. Whoever knows its content, or says how much it may be, is believed."""
    site.files["/" + name] = BOMBS[name]
    url = "%s/%s" % (site.url, name)
    with pytest.raises(UsageError, match=r"unpacks to more than \d.* MB, ") as refused:
        data.fetch(url, folder=True)
    assert refused.value.where == url and "sha256" in str(refused.value.hint) and "max_size" in str(refused.value.hint)
    assert sizes(tmp_path) < FLOOR and not list(tmp_path.rglob("*.part/*"))
    with pytest.raises(UsageError, match="unpacks to more than max_size, 3 MB"):
        data.fetch(url, folder=True, sha256=hashlib.sha256(BOMBS[name]).hexdigest(), max_size=3_000_000)
    digest = hashlib.sha256(BOMBS[name]).hexdigest()
    assert os.listdir(data.fetch(url, folder=True, sha256=digest).path)


def test_max_size_in_place_of_a_checksum(low_floor: None, site: Site, data: DataStore) -> None:
    site.files["/bomb.zip"] = BOMBS["bomb.zip"]
    found = data.fetch(site.url + "/bomb.zip", folder=True, max_size=20 * FLOOR)
    assert os.path.getsize(os.path.join(found.path, "zeros")) == 16 * FLOOR


def test_an_ordinary_archive_has_room(site: Site, data: DataStore) -> None:
    """Text shrinks tenfold; and what is less than a gigabyte fills no disk."""
    site.files["/zeros.zip"] = zeros_in_a_zip(64 << 20)
    assert data.fetch(site.url + "/zeros.zip", folder=True).path
    assert archives.is_archive("zeros.zip") and limits.MIN_UNPACK_LIMIT == 1 << 30


# addresses


def test_http_without_a_checksum_is_spoken_of(site: Site, data: DataStore, told: Told) -> None:
    site.files["/a.bin"] = b"a"
    abroad = site.url.replace("127.0.0.1", "0.0.0.0")  # this machine, by an address that does not say so
    data.fetch(abroad + "/a.bin", what="inputs.a")
    (said,) = [notice for notice in told.notices if "sha256" in notice]
    assert said.startswith("inputs.a: ") and abroad in said and "https" in said
    told.notices.clear()
    data.fetch(abroad + "/a.bin", sha256=hashlib.sha256(b"a").hexdigest())
    data.fetch(site.url + "/a.bin")
    assert not [notice for notice in told.notices if "sha256" in notice]


class Redirecting:
    """An https server that leads elsewhere."""

    def __init__(self, target: str, directory: Path) -> None:
        class Handler(BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                self.send_response(302)
                self.send_header("Location", target)
                self.send_header("Content-Length", "0")
                self.end_headers()

            def log_message(self, *_: object) -> None:
                pass

        authority, own = issue(1)
        self.authority = str(directory / "authority")
        authority.cert_pem.write_to_path(self.authority)
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        own.configure_cert(context)
        self._server = HTTPServer(("127.0.0.1", 0), Handler)
        self._server.socket = context.wrap_socket(self._server.socket, server_side=True)
        self.url = "https://127.0.0.1:%d" % self._server.server_port
        self._thread = threading.Thread(target=self._server.serve_forever, args=(0.01,), daemon=True)
        self._thread.start()

    def close(self) -> None:
        self._server.shutdown()
        self._server.server_close()
        self._thread.join()


def test_https_is_not_left_for_http(
    site: Site, data: DataStore, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Found by review: whoever answers the second question could send anything. A known content is no danger."""
    site.files["/a.bin"] = b"a"
    server = Redirecting(site.url + "/a.bin", tmp_path)
    monkeypatch.setenv("SSL_CERT_FILE", server.authority)
    try:
        with pytest.raises(UsageError, match="redirects from https to http") as refused:
            data.fetch(server.url + "/a.bin")
        assert "sha256" in str(refused.value.hint) and site.asked == []
        digest = hashlib.sha256(b"a").hexdigest()
        assert Path(data.fetch(server.url + "/a.bin", sha256=digest).path).read_bytes() == b"a"
    finally:
        server.close()


# as a job says it


@pytest.fixture
def cli(tmp_path: Path) -> Iterator[Cli]:
    cli = Cli(str(tmp_path))
    yield cli
    cli.close()


def job(cli: Cli, path: str, most: str) -> None:
    text = "command: wc -c < ${{inputs.data}}\ninputs:\n  data:\n    type: uri_file\n    path: %s\n    max_size: %s\n"
    cli.write("job.yml", text % (path, most))


def test_a_jobs_input(cli: Cli, site: Site) -> None:
    """The key is named with its line, and no run is made."""
    site.files["/data.bin"] = CHUNK * 3
    job(cli, site.url + "/data.bin", "2 MiB")
    refused = cli("run", "job.yml")
    assert refused.code == 2 and "job.yml:6: inputs.data.max_size: " in refused.err, refused
    assert "is larger than max_size, 2.1 MB" in refused.err and not os.path.exists(os.path.join(cli.home, "runs"))
    job(cli, site.url + "/data.bin", "3145728")
    run = cli.run("job.yml")
    assert "3145728" in cli.ok("logs", run).out and "max_size: " in cli.read(run, "job.yml")


@pytest.mark.exhaustive(unless=["0", "much"])
@pytest.mark.parametrize("most", ["much", "-1", "0", "5 miles"])
def test_a_limit_that_is_none(cli: Cli, site: Site, most: str) -> None:
    job(cli, site.url + "/data.bin", most)
    refused = cli("run", "job.yml")
    assert refused.code == 2 and "job.yml:6: inputs.data.max_size" in refused.err and "500 MB" in refused.err


@pytest.mark.parametrize("header", ["Content-Length: \xb2", "Content-Length: " + "9" * 5000])
def test_a_length_that_is_no_number(cli: Cli, header: str) -> None:
    """Found by review: that was a traceback."""
    listener = socket.create_server(("127.0.0.1", 0))

    def answer() -> None:
        for _ in range(8):
            try:
                connection, _ = listener.accept()
            except OSError:
                return
            with connection:
                connection.recv(65536)
                connection.sendall(b"HTTP/1.0 200 OK\r\n%s\r\n\r\nabc" % header.encode("latin-1"))

    thread = threading.Thread(target=answer)
    thread.start()
    try:
        address = "http://127.0.0.1:%d/x" % listener.getsockname()[1]
        cli.write("job.yml", "command: cat ${{inputs.d}}\ninputs: {d: {type: uri_file, path: '%s'}}\n" % address)
        result = cli("run", "job.yml")
        assert "Traceback" not in result.err, result
    finally:
        listener.shutdown(socket.SHUT_RDWR)
        listener.close()
        thread.join()
