"""Data by URI: fetched once, gone on with where it broke, never taken for what it is not. Against a real web server."""

from __future__ import annotations

import hashlib
import io
import os
import tarfile
import threading
import zipfile
from collections.abc import Callable, Iterator
from http.client import IncompleteRead
from pathlib import Path
from ssl import SSLError

import pytest
from recorded_progress import RecordedProgress
from webserver import Site, serve

from worldsize.common.numbers import bytes_text
from worldsize.errors import UsageError, WorldsizeError
from worldsize.jobspec.paths import is_fetchable
from worldsize.store.content_store import FetchedData
from worldsize.wings.staging import http
from worldsize.wings.staging.archives import unpack_archive
from worldsize.wings.staging.fetch import DataStore, file_name

CONTENT = os.urandom(3 << 20)
SHA256 = hashlib.sha256(CONTENT).hexdigest()


@pytest.fixture
def site() -> Iterator[Site]:
    with serve() as site:
        site.files["/set/train.bin"] = CONTENT
        yield site


@pytest.fixture(autouse=True)
def _impatient(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(http.download, "__defaults__", (None, (0.0, 0.0, 0.0), lambda _: None))


@pytest.fixture
def data(tmp_path: Path) -> DataStore:
    return DataStore(str(tmp_path / "data"), RecordedProgress())


def read(found: FetchedData) -> bytes:
    return Path(found.path).read_bytes()


def test_it_is_fetched_once(site: Site, tmp_path: Path) -> None:
    told = RecordedProgress()
    data = DataStore(str(tmp_path / "data"), told)
    first = data.fetch(site.url + "/set/train.bin", what="inputs.train")
    assert read(first) == CONTENT and first.sha256 == SHA256 and os.path.basename(first.path) == "train.bin"
    assert told.notices == ["inputs.train: fetching %s/set/train.bin (3.15 MB)" % site.url]
    assert told.transfers[0][2] == len(CONTENT) and ("inputs.train", len(CONTENT), len(CONTENT)) in told.transfers
    assert data.fetch(site.url + "/set/train.bin").path == first.path
    assert site.statuses() == [200, 304]
    assert os.stat(first.path).st_mode & 0o222 == 0


def test_what_has_changed_is_fetched_again_and_the_old_one_stays(site: Site, data: DataStore) -> None:
    first = data.fetch(site.url + "/set/train.bin")
    site.files["/set/train.bin"] = b"new"
    assert read(data.fetch(site.url + "/set/train.bin")) == b"new"
    assert read(first) == CONTENT


def test_with_a_checksum_nobody_is_asked_twice(site: Site, data: DataStore) -> None:
    for _ in range(2):
        assert read(data.fetch(site.url + "/set/train.bin", sha256=SHA256.upper())) == CONTENT
    assert site.statuses() == [200]


def test_a_wrong_checksum_is_refused_and_nothing_is_kept(site: Site, data: DataStore, tmp_path: Path) -> None:
    for _ in range(2):
        with pytest.raises(UsageError, match="its sha256 is %s, and not 0000" % SHA256):
            data.fetch(site.url + "/set/train.bin", sha256="0" * 64)
    assert site.statuses() == [200, 200]
    assert not (tmp_path / "data" / "files").exists()
    assert read(data.fetch(site.url + "/set/train.bin")) == CONTENT
    with pytest.raises(UsageError, match="its sha256 is"):
        data.fetch(site.url + "/set/train.bin", sha256="0" * 64)


def test_a_file_that_looks_as_before_is_read_again(data: DataStore, tmp_path: Path) -> None:
    """Found by review: its owner, who may be somebody else, sets its time as before, and it was believed."""
    path = tmp_path / "weights"
    path.write_bytes(b"good")
    status = path.stat()
    digest = hashlib.sha256(b"good").hexdigest()
    data.verify(str(path), digest, "inputs.w")
    path.write_bytes(b"evil")
    os.utime(path, ns=(status.st_atime_ns, status.st_mtime_ns))
    with pytest.raises(UsageError, match="its sha256 is"):
        data.verify(str(path), digest, "inputs.w")


def test_a_file_that_changes_after_it_was_read(
    data: DataStore, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Found by review: what was kept under its checksum was a copy that was made later."""
    path, digest = tmp_path / "tool.sh", hashlib.sha256(b"good").hexdigest()
    path.write_bytes(b"good")
    ordinary = DataStore.digest

    def changing(self: DataStore, named: str, what: str) -> str:
        found = ordinary(self, named, what)
        if named == str(path):
            path.write_bytes(b"evil")
        return found

    monkeypatch.setattr(DataStore, "digest", changing)
    with pytest.raises(UsageError, match="its sha256 is"):
        data.fetch(str(path), sha256=digest)
    assert not [
        each for each in tmp_path.rglob("*") if each != path and each.is_file() and each.read_bytes() == b"evil"
    ]


def test_a_broken_connection_is_gone_on_from(site: Site, data: DataStore) -> None:
    site.breaks = [1 << 20, 100, 0, 1 << 20]
    assert read(data.fetch(site.url + "/set/train.bin")) == CONTENT
    assert [asked.headers.get("range") for asked in site.asked] == [
        None, "bytes=1048576-", "bytes=1048676-", "bytes=1048676-", "bytes=2097252-",
    ]  # fmt: skip
    assert site.statuses() == [200, 206, 206, 206, 206]


def test_a_later_call_goes_on_too(site: Site, data: DataStore) -> None:
    site.breaks = [1 << 20, 0, 0, 0]
    with pytest.raises(WorldsizeError, match="broke after 1048576 of 3145728 bytes") as failed:
        data.fetch(site.url + "/set/train.bin")
    assert failed.value.exit_code == 1 and "the received part is kept" in str(failed.value)
    assert read(data.fetch(site.url + "/set/train.bin")) == CONTENT
    assert site.asked[-1].headers["range"] == "bytes=1048576-"


def test_what_changes_between_two_parts_is_fetched_from_its_start(site: Site, data: DataStore) -> None:
    site.breaks = [1 << 20, 0, 0, 0]
    with pytest.raises(WorldsizeError):
        data.fetch(site.url + "/set/train.bin")
    site.files["/set/train.bin"] = CONTENT[::-1]
    assert read(data.fetch(site.url + "/set/train.bin")) == CONTENT[::-1]
    assert site.statuses()[-1] == 200


@pytest.mark.parametrize("ranges", [True, False])
def test_a_server_without_ranges_or_tags_starts_anew(site: Site, data: DataStore, ranges: bool) -> None:
    site.ranges, site.tags = ranges, ranges
    site.breaks = [1 << 20]
    assert read(data.fetch(site.url + "/set/train.bin")) == CONTENT
    assert site.statuses() == [200, 206 if ranges else 200]


def test_a_server_that_breaks_off_for_ever(site: Site, data: DataStore) -> None:
    """Found by review: whatever arrived counted as progress, though each attempt began anew."""
    site.ranges = False
    site.breaks = [100] * 50
    with pytest.raises(WorldsizeError, match="broke after 100 of 3145728 bytes"):
        data.fetch(site.url + "/set/train.bin")
    assert len(site.asked) == 4
    site.breaks = [100, 50, 100, 101, 7, 101]
    assert read(data.fetch(site.url + "/set/train.bin")) == CONTENT


@pytest.mark.parametrize("target", ["ftp://127.0.0.1:9/x?key=verysecret", "FTP://127.0.0.1:9/x?key=verysecret"])
def test_an_answer_that_leads_elsewhere_than_to_the_web(site: Site, data: DataStore, target: str) -> None:
    """Found by review: files were fetched by ftp, too."""
    site.replies["/moved"] = (302, {"Location": target}, b"")
    with pytest.raises(UsageError, match="is neither http nor https") as refused:
        data.fetch(site.url + "/moved")
    assert "verysecret" not in str(refused.value) and site.statuses() == [302]


def test_an_answer_that_leads_on(site: Site, data: DataStore) -> None:
    site.replies["/moved"] = (302, {"Location": "/set/train.bin"}, b"")
    assert read(data.fetch(site.url + "/moved")) == CONTENT


@pytest.mark.parametrize(
    "error", [IncompleteRead(b"ab", 5), TimeoutError("timed out"), ConnectionResetError("reset"), SSLError("broken")]
)
def test_a_small_file_whose_connection_breaks(error: Exception, monkeypatch: pytest.MonkeyPatch) -> None:
    """Found by review: only what happens before the first byte was looked at; the rest was a traceback."""

    class Answer(io.BytesIO):
        def read(self, size: int | None = -1) -> bytes:
            raise error

    answers: list[Answer] = []

    def opened(*_: object) -> Answer:
        answers.append(Answer())
        return answers[-1]

    monkeypatch.setattr(http, "_open", opened)
    with pytest.raises(WorldsizeError, match="cannot be fetched: the connection broke") as failed:
        http.read("http://host/x?key=verysecret", 1000, pauses=(0.0, 0.0))
    assert len(answers) == 3 and all(each.closed for each in answers) and "verysecret" not in str(failed.value)


def test_a_small_file_that_is_cut_off(site: Site) -> None:
    """Found by review: a chunk that ends early was a traceback. Fewer bytes than were said were all that there is."""
    site.acts = lambda *_: (200, {"Transfer-Encoding": "chunked"}, b"ff\r\nabc")
    site.breaks = [7] * 2
    with pytest.raises(WorldsizeError, match="the connection broke"):
        http.read(site.url + "/x", 1000, pauses=(0.0,))
    site.acts, site.breaks = None, [5] * 2
    with pytest.raises(WorldsizeError, match="the connection broke after 5 bytes"):
        http.read(site.url + "/set/train.bin", len(CONTENT), pauses=(0.0,))
    site.breaks = [5]
    assert http.read(site.url + "/set/train.bin", len(CONTENT), pauses=(0.0,)) == CONTENT
    with pytest.raises(UsageError, match="is larger than 9 bytes"):
        http.read(site.url + "/set/train.bin", 9, pauses=(0.0,))


def test_trouble_of_the_server_is_waited_for_and_a_refusal_is_not(site: Site, data: DataStore) -> None:
    site.says = [503, 429, 500]
    assert read(data.fetch(site.url + "/set/train.bin")) == CONTENT
    site.asked.clear()
    with pytest.raises(UsageError, match="404") as missing:
        data.fetch(site.url + "/set/tarin.bin?sig=verysecret")
    assert site.statuses() == [404]
    assert "verysecret" not in str(missing.value) and "/set/tarin.bin" in str(missing.value)
    site.says = [503] * 4
    with pytest.raises(WorldsizeError, match="503"):
        data.fetch(site.url + "/set/other.bin")


def test_without_a_network_what_is_here_is_used_and_said(tmp_path: Path) -> None:
    told = RecordedProgress()
    data = DataStore(str(tmp_path), told)
    with serve() as site:
        site.files["/a.txt"] = b"a"
        url = site.url + "/a.txt"
        first = data.fetch(url)
    assert data.fetch(url, what="inputs.a").path == first.path
    assert "inputs.a: cannot be fetched: Connection refused; the copy of 20" in told.notices[-1]
    with pytest.raises(WorldsizeError, match="Connection refused"):
        data.fetch(url + ".gz")


def test_user_and_password_are_sent_and_not_shown(site: Site, data: DataStore) -> None:
    site.credentials = "Basic bWU6cEBzcw=="
    url = site.url.replace("//", "//me:p%40ss@") + "/set/train.bin"
    found = data.fetch(url)
    assert read(found) == CONTENT and found.uri == site.url + "/set/train.bin"
    with pytest.raises(UsageError, match="401") as refused:
        data.fetch(site.url.replace("//", "//me:wrong@") + "/set/train.bin")
    assert "wrong" not in str(refused.value)


@pytest.mark.heavy
def test_ten_at_once_fetch_once(site: Site, tmp_path: Path) -> None:
    found: list[FetchedData] = []

    def fetch() -> None:
        found.append(
            DataStore(str(tmp_path / "data"), RecordedProgress()).fetch(site.url + "/set/train.bin", sha256=SHA256)
        )

    threads = [threading.Thread(target=fetch) for _ in range(10)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(found) == 10 and {each.path for each in found} == {found[0].path}
    assert site.statuses().count(200) == 1


# archives


def a_tar(*members: tuple[str, bytes | str], mode: str = "w:gz") -> bytes:
    """Texts are links."""
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode=mode) as archive:
        for name, content in members:
            info = tarfile.TarInfo(name)
            if isinstance(content, str):
                info.type, info.linkname = tarfile.SYMTYPE, content
                archive.addfile(info)
            else:
                info.size, info.mode = len(content), 0o755
                archive.addfile(info, io.BytesIO(content))
    return buffer.getvalue()


def test_an_archive_is_a_folder(site: Site, data: DataStore) -> None:
    site.files["/set.tar.gz"] = a_tar(("set/a.txt", b"a"), ("set/run.sh", b"#!"), ("set/link", "a.txt"))
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w") as archive:
        archive.writestr("set/a.txt", "a")
    site.files["/set.zip"] = buffer.getvalue()
    for _ in range(2):
        folder = Path(data.fetch(site.url + "/set.tar.gz", folder=True).path)
        assert (folder / "set/link").read_text() == "a" and os.access(folder / "set/run.sh", os.X_OK)
        assert (Path(data.fetch(site.url + "/set.zip", folder=True).path) / "set/a.txt").read_text() == "a"
    assert os.path.isfile(data.fetch(site.url + "/set.zip").path)


@pytest.mark.parametrize(
    "members",
    [
        [("../evil", b"x")],
        [("/tmp/evil", b"x")],
        [("link", "/tmp"), ("link/evil", b"x")],
        [("link", "../..")],
        [("a/../../evil", b"x")],
        [("x", "."), ("y", "x/../../../../etc/hostname")],
        [("x", "."), ("y", "x/x/../../secret")],
        [("a/b", b"x"), ("c", "a/b/../../../secret")],
        [("d/x", ".."), ("d/y", "x/../../secret")],
    ],
)
def test_an_archive_writes_nowhere_else(
    members: list[tuple[str, bytes | str]], site: Site, data: DataStore, tmp_path: Path
) -> None:
    site.files["/bad.tar.gz"] = a_tar(*members)
    with pytest.raises(UsageError, match="leads outside it"):
        data.fetch(site.url + "/bad.tar.gz", folder=True)
    assert not list(tmp_path.rglob("evil")) and not list((tmp_path / "data" / "folders").glob("*.part"))


def test_links_of_an_archive_that_stay_inside(site: Site, data: DataStore) -> None:
    site.files["/links.tar.gz"] = a_tar(
        ("lib/a.so.1", b"a"), ("lib/a.so", "a.so.1"), ("bin/a", "../lib/./a.so"), ("lib64", "lib"), ("top/x/y", "../..")
    )
    folder = Path(data.fetch(site.url + "/links.tar.gz", folder=True).path)
    assert (folder / "bin/a").read_text() == (folder / "lib64/a.so").read_text() == "a"
    assert os.path.samefile(folder / "top/x/y", folder)


@pytest.mark.parametrize("damage", [lambda data: data[:200], lambda data: b"<html>" + data, lambda _: b""])
@pytest.mark.parametrize("name", ["set.tar.gz", "set.zip", "set.tar.xz"])
def test_a_damaged_archive_is_no_folder(damage: Callable[[bytes], bytes], name: str, tmp_path: Path) -> None:
    path = tmp_path / name
    path.write_bytes(damage(a_tar(("a", os.urandom(1000)), mode="w:xz" if name.endswith("xz") else "w:gz")))
    with pytest.raises(UsageError, match="not a readable archive"):
        unpack_archive(str(path), name, str(tmp_path / "folder"), "there")


# other services, through fsspec


@pytest.mark.slow
def test_fsspecs_files_and_folders(data: DataStore) -> None:
    fsspec = pytest.importorskip("fsspec")
    memory = fsspec.filesystem("memory")
    memory.pipe({"/bucket/set/a.bin": CONTENT, "/bucket/set/deep/b.txt": b"b"})
    folder = Path(data.fetch("memory://bucket/set").path)
    assert (folder / "a.bin").read_bytes() == CONTENT and (folder / "deep/b.txt").read_text() == "b"
    assert data.fetch("memory://bucket/set").path == str(folder)
    memory.pipe({"/bucket/set/deep/c.txt": b"c"})
    again = Path(data.fetch("memory://bucket/set").path)
    assert again != folder and (again / "deep/c.txt").read_text() == "c"
    assert read(data.fetch("memory://bucket/set/a.bin", sha256=SHA256)) == CONTENT
    with pytest.raises(UsageError, match="no such file or folder"):
        data.fetch("memory://bucket/nothing")
    with pytest.raises(UsageError, match="a checksum is for a file"):
        data.fetch("memory://bucket/set", sha256=SHA256)


@pytest.mark.parametrize(
    ("uri", "name", "fetchable"),
    [
        ("https://host/a/b%20c.tar.gz?x=1", "b_c.tar.gz", True),
        ("https://host", "data", True),
        ("abfss://c@a.dfs.core.windows.net/.hidden", "hidden", True),
        ("azureml://datastores/d/paths/p", "p", False),
        ("azureml:data:1", "azureml:data:1", False),
    ],
)
def test_names(uri: str, name: str, fetchable: bool) -> None:
    assert is_fetchable(uri) is fetchable
    if fetchable:
        assert file_name(uri) == name


def test_sizes_in_words() -> None:
    assert [bytes_text(count) for count in (0, 999, 1500, 3.2e9, 5e12)] == ["0 B", "999 B", "1.5 kB", "3.2 GB", "5 TB"]
