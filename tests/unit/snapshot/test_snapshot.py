"""Snapshots hold what the code directory held, store content once, and never trust a changed object."""

from __future__ import annotations

import errno
import os
import socket
import stat
import tempfile
import time

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from selection import cases

from worldsize.common.atomic_files import read_json
from worldsize.errors import SnapshotError, StorageError
from worldsize.snapshot import object_store, snapshot
from worldsize.snapshot import snapshot as index
from worldsize.snapshot.code_files import CodeFiles
from worldsize.snapshot.ignore_rules import IgnoreRules
from worldsize.snapshot.scan import scan
from worldsize.snapshot.snapshot import materialize, take_snapshot
from worldsize.store.runs import create_run, objects_dir


class Place:
    """A code directory, and a home whose runs snapshot it."""

    def __init__(self, root: str) -> None:
        self.home = os.path.join(root, "home")
        self.code = os.path.join(root, "code dir")
        self.objects = objects_dir(os.path.join(self.home, "runs"))
        os.mkdir(self.code)

    def write(self, relative: str, content: str | bytes = "x", mode: int = 0o644) -> str:
        path = os.path.join(self.code, relative)
        os.makedirs(os.path.dirname(path), exist_ok=True)
        with open(path, "wb") as file:
            file.write(content if isinstance(content, bytes) else content.encode())
        os.chmod(path, mode)
        return path

    def take(self, excluded=()):
        paths = create_run(self.home)
        return paths, take_snapshot(self.code, paths, self.objects, (self.home, *excluded))

    def stored(self) -> list[str]:
        found = [os.path.join(d, n) for d, _, names in os.walk(self.objects) for n in names]
        return sorted(path for path in found if not os.path.basename(path).startswith("index-"))


@pytest.fixture
def place(tmp_path):
    return Place(str(tmp_path))


def tree(root: str) -> dict[str, object]:
    """Everything below `root` but the run's own outputs and logs links: content, target, or None for a directory."""
    found: dict[str, object] = {}
    for directory, names, files in os.walk(root):
        for name in names + files:
            path = os.path.join(directory, name)
            relative = os.path.relpath(path, root)
            if relative in ("outputs", "logs") and os.path.islink(path):
                continue
            if os.path.islink(path):
                found[relative] = ("link", os.readlink(path))
            elif os.path.isdir(path):
                found[relative] = None
            else:
                with open(path, "rb") as file:
                    found[relative] = (file.read(), os.access(path, os.X_OK))
    return found


def names_in(paths) -> set[str]:
    return set(read_json(paths.manifest)["files"])


def test_same_content_is_stored_once_and_linked(place):
    place.write("a.py", "print(1)")
    place.write("sub/b.py", "print(1)")
    place.write("run.sh", "print(1)", 0o755)
    first, taken = place.take()
    second, again = place.take()
    assert (taken.files, taken.bytes, taken.warnings) == (3, 24, ())
    assert taken.digest == again.digest
    assert len(place.stored()) == 2  # one content, once plain and once executable
    plain = os.stat(os.path.join(first.code, "a.py"))
    assert plain.st_ino == os.stat(os.path.join(second.code, "sub", "b.py")).st_ino
    assert stat.S_IMODE(plain.st_mode) == 0o400
    assert stat.S_IMODE(os.stat(os.path.join(first.code, "run.sh")).st_mode) == 0o500
    assert tree(first.code) == tree(second.code) == {**tree(place.code)}


def test_an_empty_directory_is_a_snapshot(place):
    paths, taken = place.take()
    assert taken.files == 0 and names_in(paths) == set()


_part = st.binary(min_size=1, max_size=12).filter(lambda b: not set(b) & {0, 0x2F} and b not in (b".", b".."))
_contents = st.dictionaries(
    st.lists(_part, min_size=1, max_size=3).map(b"/".join),
    st.tuples(st.binary(max_size=50), st.booleans()),
    max_size=8,
)
_SPECIAL = (".git", ".amlignore", "__pycache__", "pyvenv.cfg", "conda-meta", "outputs", "logs")


@settings(max_examples=cases(25), suppress_health_check=list(HealthCheck))
@given(_contents, st.sampled_from([0, 1 << 30]))
def test_round_trip_of_any_tree(contents, index_from):
    with tempfile.TemporaryDirectory() as root, pytest.MonkeyPatch.context() as patch:
        patch.setattr(snapshot, "_INDEX_FROM_FILES", index_from)
        place = Place(root)
        for name, (content, executable) in contents.items():
            name = os.fsdecode(name)
            parts = name.split("/")
            if any(part.startswith(_SPECIAL) or part.endswith(".pyc") for part in parts):
                continue
            try:
                place.write(name, content, 0o755 if executable else 0o644)
            except (FileExistsError, NotADirectoryError, IsADirectoryError):
                continue
        first, taken = place.take()
        second, again = place.take()
        assert tree(first.code) == tree(second.code) == tree(place.code)
        assert taken == again
        assert names_in(first) == {name for name, value in tree(place.code).items() if value is not None}


def test_always_ignored(place):
    for name in (".git/HEAD", "a/__pycache__/m.cpython-311.pyc", "old.pyc", ".ipynb_checkpoints/n.ipynb"):
        place.write(name)
    for name in (".mypy_cache/x", ".pytest_cache/x", "b/.ruff_cache/x"):
        place.write(name)
    place.write("env/pyvenv.cfg")
    place.write("env/lib/python/site.py")
    place.write("conda/conda-meta/history")
    place.write("conda/bin/python")
    place.write("wshome/runs/1/x")
    place.write("keep/gitignore.py")
    paths, _ = place.take(excluded=(os.path.join(place.code, "wshome"),))
    assert names_in(paths) == {"keep/gitignore.py"}
    assert sorted(tree(paths.code)) == ["a", "b", "keep", "keep/gitignore.py"]


def test_home_inside_the_code_is_left_out(tmp_path):
    place = Place(str(tmp_path))
    place.write("train.py")
    place.home = os.path.join(place.code, ".worldsize")
    place.objects = objects_dir(os.path.join(place.home, "runs"))
    place.take()
    paths, _ = place.take()
    assert names_in(paths) == {"train.py"}


@pytest.mark.parametrize("name", ["20261124-100000-abcdef", "kept"])
def test_runs_inside_the_code_are_left_out(place, name):
    """Found by review: with the secrets of those that go on, for all to read who may read the new run."""
    for each in ("agent.pyz", "plan.json", "secrets.json", "outputs/model.pt"):
        place.write("runs/%s/%s" % (name, each))
    place.write("runs/mine.txt")
    assert names_in(place.take()[0]) == {"runs/mine.txt"}


def test_results_of_benchmarks_inside_the_code_are_left_out(place):
    for name in ("bench-job-1/.worldsize-result", "bench-job-1/result.json", "bench-job-1/more/x", "train.py"):
        place.write(name)
    assert names_in(place.take()[0]) == {"train.py"}


def test_nested_gitignore_the_deepest_decides(place):
    place.write(".gitignore", "*.ckpt\r\n/data/\n# comment\nbuild/\nname with space\n\u00fc.txt\n")
    place.write("sub/.gitignore", "!keep.ckpt\n/only_here\n")
    for name in ("a.ckpt", "data/x", "sub/data/x", "build/x", "sub/build/x", "name with space", "ü.txt"):
        place.write(name)
    for name in ("sub/keep.ckpt", "sub/other.ckpt", "sub/only_here", "only_here"):
        place.write(name)
    paths, _ = place.take()
    assert names_in(paths) == {".gitignore", "sub/.gitignore", "sub/data/x", "sub/keep.ckpt", "only_here"}


def test_amlignore_wins(place):
    place.write(".gitignore", "*.py\n")
    place.write("sub/.gitignore", "*\n")
    place.write(".amlignore", "big/\n!big/keep\n")
    for name in ("a.py", "sub/b", "big/keep"):
        place.write(name)
    paths, _ = place.take()
    assert names_in(paths) == {".gitignore", ".amlignore", "sub/.gitignore", "a.py", "sub/b"}


def test_a_bad_pattern_is_reported_with_its_line(place):
    place.write(".gitignore", b"!\n*.log\n\xff\n")
    place.write("a.log")
    paths, taken = place.take()
    assert names_in(paths) == {".gitignore"}
    assert len(taken.warnings) == 1 and ".gitignore:1: not a pattern" in taken.warnings[0]


def test_links_keep_their_meaning(place, tmp_path):
    place.write("lib/real.py", "real")
    place.write("outside_of_code", "x")
    outside = tmp_path / "shared file"
    outside.write_text("shared")
    (tmp_path / "dataset").mkdir()
    code = place.code
    os.symlink("real.py", code + "/lib/relative")
    os.symlink(code + "/lib/real.py", code + "/absolute")
    os.symlink("../code dir/lib", code + "/roundabout")
    os.symlink("nowhere", code + "/dangling")
    os.symlink(str(outside), code + "/file")
    os.symlink("../dataset", code + "/data")
    os.symlink("/nonexistent/x", code + "/gone")
    os.symlink("loop", code + "/loop")
    paths, taken = place.take()
    assert os.readlink(paths.code + "/lib/relative") == "real.py"
    assert os.readlink(paths.code + "/absolute") == "lib/real.py"
    assert os.readlink(paths.code + "/roundabout") == "lib"
    assert os.readlink(paths.code + "/dangling") == "nowhere"
    assert not os.path.islink(paths.code + "/file") and open(paths.code + "/file").read() == "shared"
    assert os.readlink(paths.code + "/data") == str(tmp_path / "dataset")
    assert not os.path.lexists(paths.code + "/gone")
    said = "\n".join(taken.warnings)
    assert "data: links to" in said and "gone: left out" in said and "too many links" in said
    assert len(taken.warnings) == 3


@pytest.mark.parametrize(
    ("name", "target", "in_run"),
    [
        ("data/x", "../outputs/../secrets.json", "../secrets.json"),
        ("data/x", "../outputs/ckpt", "../outputs/ckpt"),
        ("data/x", "../l/l/../code dir/real", "../real"),
        ("data/x", "..", ".."),
        ("x", "missing/../outputs/../agent.pyz", "agent.pyz"),
        ("outputs/x", "../agent.pyz", "../code/agent.pyz"),
        ("outputs/x", "../data/y", "../code/data/y"),
        ("outputs/x", "..", "../code"),
        ("outputs/sub/x", "../ckpt", "../ckpt"),
        ("outputs/sub/x", "../../logs/y", "../../code/logs/y"),
        ("logs/x", "../outputs/../plan.json", "../code/plan.json"),
        ("logs/x", "y", "y"),
    ],
)
def test_a_link_within_the_code_leads_to_the_same_in_a_run(place, name, target, in_run):
    """Found by review: outputs and logs lie beside the code in a run, so what led back out of them led elsewhere."""
    for directory in ("data", "outputs/sub", "logs"):
        place.write(directory + "/file", "content")
    os.symlink(".", place.code + "/l")
    os.symlink(target, os.path.join(place.code, name))
    assert dict(scan(place.code).links)[name] == in_run


def test_special_files_are_skipped_with_a_warning(place, monkeypatch):
    os.mkfifo(os.path.join(place.code, "pipe\n"))
    monkeypatch.chdir(place.code)
    with socket.socket(socket.AF_UNIX) as server:
        server.bind("socket")
        paths, taken = place.take()
    assert names_in(paths) == set()
    assert sorted(taken.warnings)[0].startswith("pipe\\n: left out") and len(taken.warnings) == 2


def test_outputs_and_logs_are_the_runs_own(place):
    place.write("outputs/old/model", "weights")
    place.write("logs/run.sh", "l", 0o755)
    paths, _ = place.take()
    model = os.path.join(paths.outputs, "old", "model")
    assert open(model).read() == "weights" and os.stat(model).st_nlink == 1
    assert stat.S_IMODE(os.stat(model).st_mode) == 0o600
    assert stat.S_IMODE(os.stat(os.path.join(paths.user_logs, "run.sh")).st_mode) == 0o700
    assert names_in(paths) == {"outputs/old/model", "logs/run.sh"} and place.stored() == []


def test_what_an_earlier_run_wrote_among_its_code_can_be_written_again(place):
    """Found: to an ordinary user `rerun` refused what the run itself had done, and root wrote into the store."""
    place.write("train.py", "code")
    first, _ = place.take()
    with open(first.code + "/model.pt", "w") as file:
        file.write("weights")
    place.code = first.code
    second, _ = place.take()
    with open(second.code + "/model.pt", "r+") as file:
        assert file.read() == "weights"
    code, written = (os.stat(os.path.join(second.code, name)) for name in ("train.py", "model.pt"))
    assert (code.st_nlink, code.st_mode & 0o222) == (3, 0) and (written.st_nlink, written.st_mode & 0o222) == (1, 0o200)


def test_a_file_called_outputs_gives_way(place):
    place.write("outputs")
    os.symlink("/tmp", os.path.join(place.code, "logs"))
    paths, taken = place.take()
    assert os.path.isdir(os.path.join(paths.code, "outputs")) and len(taken.warnings) == 2


def test_limits_stop_the_walk(place, monkeypatch):
    for number in range(30):
        place.write("data/deep/%d" % number)
        place.write("far/%d/%d" % (number, number))
    monkeypatch.setattr("worldsize.snapshot.scan.MAX_ENTRIES", 20)
    with pytest.raises(SnapshotError) as caught:
        scan(place.code)
    assert "more than 20 files" in caught.value.what and "/ (" in caught.value.what
    assert ".amlignore" in str(caught.value) and "--code" in str(caught.value)
    visited: list[str] = []
    scandir = os.scandir
    monkeypatch.setattr(os, "scandir", lambda path: visited.append(path) or scandir(path))
    monkeypatch.setattr("worldsize.snapshot.scan.MAX_ENTRIES", 5)
    with pytest.raises(SnapshotError):
        scan(place.code)
    assert len(visited) < 12


def test_the_size_limit_names_the_largest(place, monkeypatch):
    with open(place.write("train.py"), "ab"):
        pass
    os.truncate(place.write("data/big.bin"), 3 << 30)
    with pytest.raises(SnapshotError, match=r"more than 1 GiB; largest so far: data/ \(3 GiB, 2 entries\)"):
        scan(place.code)
    monkeypatch.setattr("worldsize.snapshot.scan.MAX_BYTES", 4 << 30)
    assert len(scan(place.code).files) == 2


def test_missing_code_directory(tmp_path):
    with pytest.raises(SnapshotError, match="No such file"):
        scan(str(tmp_path / "none"))
    (tmp_path / "file").write_text("")
    with pytest.raises(SnapshotError, match="Not a directory"):
        scan(str(tmp_path / "file"))


def test_an_unreadable_file_is_named(place, monkeypatch):
    place.write("secret.key")
    os_open = os.open

    def refuse(path, *args, **kwargs):
        if str(path).endswith("secret.key"):
            raise PermissionError(errno.EACCES, "Permission denied", path)
        return os_open(path, *args, **kwargs)

    monkeypatch.setattr(os, "open", refuse)
    with pytest.raises(SnapshotError, match="Permission denied") as caught:
        place.take()
    assert "secret.key" in str(caught.value.where) and "readable" in str(caught.value.hint)


def test_a_file_that_vanishes_is_left_out(place):
    place.write("a")
    path = place.write("b")
    listing = scan(place.code)
    os.unlink(path)
    paths = create_run(place.home)
    taken = snapshot.materialize(listing, paths, place.objects)
    assert names_in(paths) == {"a"} and "b: left out" in taken.warnings[0]


def test_a_file_that_changes_is_stored_as_it_was_read(place):
    path = place.write("a", "before")
    listing = scan(place.code)
    place.write("a", "after, and longer")
    paths = create_run(place.home)
    snapshot.materialize(listing, paths, place.objects)
    kind, size, digest = read_json(paths.manifest)["files"]["a"]
    content = open(os.path.join(paths.code, "a"), "rb").read()
    assert content == open(path, "rb").read()
    assert (kind, size, digest) == ("file", len(content), object_store.digest_of(content))


def test_an_object_written_through_a_link_is_replaced(place):
    place.write("a", "good")
    first, _ = place.take()
    victim = os.path.join(first.code, "a")
    os.chmod(victim, 0o600)
    with open(victim, "w") as file:
        file.write("evil")
    second, _ = place.take()
    assert open(os.path.join(second.code, "a")).read() == "good"
    os.chmod(victim, 0o400)
    third, _ = place.take()
    assert open(os.path.join(third.code, "a")).read() == "good"


@pytest.mark.parametrize("size", [10, (1 << 20) + 10])
@pytest.mark.parametrize("number", [errno.EXDEV, errno.EMLINK, errno.EPERM])
def test_copied_where_links_are_impossible(place, monkeypatch, number, size):
    place.write("a", b"x" * size, 0o755)

    def refuse(*args, **kwargs):
        raise OSError(number, os.strerror(number))

    monkeypatch.setattr(os, "link", refuse)
    paths, _ = place.take()
    status = os.stat(os.path.join(paths.code, "a"))
    assert (status.st_nlink, status.st_size, stat.S_IMODE(status.st_mode)) == (1, size, 0o500)


def test_large_files_are_stored_once_and_leave_no_rest(place):
    content = os.urandom(1 << 20) * 3 + b"end"
    place.write("a", content)
    place.write("b", content)
    paths, _ = place.take()
    assert len(place.stored()) == 1
    assert open(os.path.join(paths.code, "b"), "rb").read() == content


def test_a_full_disk_is_a_storage_error_and_leaves_no_half_object(place, monkeypatch):
    place.write("a", "content")
    paths = create_run(place.home)

    def full(*args):
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr(os, "write", full)
    with pytest.raises(StorageError, match="No space left"):
        take_snapshot(place.code, paths, place.objects)
    assert place.stored() == []


def test_a_run_deleted_meanwhile_is_a_storage_error(place):
    place.write("a", "content")
    paths = create_run(place.home)
    os.rename(paths.root, paths.root + "x")
    with pytest.raises(StorageError, match="No such file"):
        take_snapshot(place.code, paths, place.objects)


def old(path: str) -> None:
    """Lets the file look as if it had been there for a while."""
    status = os.stat(path)
    os.utime(path, ns=(status.st_atime_ns, status.st_mtime_ns - 60 * 10**9))


class Reads:
    """Counts the files whose content is read."""

    def __init__(self, monkeypatch) -> None:
        self.names: list[str] = []
        real = CodeFiles.open_file
        monkeypatch.setattr(
            CodeFiles, "open_file", lambda files, name: self.names.append(os.path.basename(name)) or real(files, name)
        )


@pytest.fixture
def indexed(place, monkeypatch):
    """A place whose index is always used, and whose files are never too young for it."""
    monkeypatch.setattr(snapshot, "_INDEX_FROM_FILES", 0)
    monkeypatch.setattr(index, "_RACY_NS", -(10**12))
    return place


def test_unchanged_files_are_not_read_again(indexed, monkeypatch):
    for name in ("a", "b\udcff", "c d\n"):
        indexed.write(name, name.encode("utf-8", "surrogateescape"))
    first, taken = indexed.take()
    reads = Reads(monkeypatch)
    second, again = indexed.take()
    assert reads.names == [] and taken == again and tree(second.code) == tree(first.code)
    indexed.write("a", "A")
    third, _ = indexed.take()
    assert reads.names == ["a"] and open(third.code + "/a").read() == "A"


def test_a_change_that_keeps_size_and_mtime_is_seen(indexed):
    path = indexed.write("a", "one")
    old(path)
    before = os.stat(path)
    indexed.take()
    time.sleep(0.05)  # for another ctime: the kernel's clock for it ticks every few milliseconds
    with open(path, "w") as file:
        file.write("two")
    os.utime(path, ns=(before.st_atime_ns, before.st_mtime_ns))
    paths, _ = indexed.take()
    assert open(paths.code + "/a").read() == "two"


def test_young_files_are_not_remembered(place, monkeypatch):
    monkeypatch.setattr(snapshot, "_INDEX_FROM_FILES", 0)
    path = place.write("a")
    an_hour_on = time.time() + 3600
    os.utime(path, (an_hour_on, an_hour_on))  # young however long it takes to get there
    place.take()
    reads = Reads(monkeypatch)
    place.take()
    assert reads.names == ["a"]


@pytest.mark.parametrize("garbage", [b"", b"\xff\xff", b"\x81\xa1a\x01", b"{}"])
def test_a_broken_index_is_dropped(indexed, garbage):
    indexed.write("a")
    indexed.take()
    (name,) = [name for name in os.listdir(indexed.objects) if name.startswith("index-")]
    with open(os.path.join(indexed.objects, name), "wb") as file:
        file.write(garbage)
    paths, taken = indexed.take()
    assert names_in(paths) == {"a"} and taken.warnings == ()


def test_an_index_survives_pruned_objects(indexed):
    indexed.write("a", "content")
    indexed.take()
    for path in indexed.stored():
        os.unlink(path)
    paths, _ = indexed.take()
    assert open(paths.code + "/a").read() == "content" and len(indexed.stored()) == 1


def test_a_manifest_tells_what_a_tree_holds(place):
    place.write("same")
    place.write("mode", "m")
    first, one = place.take()
    place.write("mode", "m", 0o755)
    place.write("added\udcff")
    second, two = place.take()
    before, after = read_json(first.manifest), read_json(second.manifest)
    assert sorted(before["files"]) == ["mode", "same"] and sorted(after["files"]) == ["added\udcff", "mode", "same"]
    assert [each["files"]["mode"][0] for each in (before, after)] == ["file", "exec"]
    assert before["files"]["same"] == after["files"]["same"] and before["digest"] == one.digest != two.digest


def test_a_link_of_anothers_is_not_followed(tmp_path):
    """Found by review: it led to any file of the user's, and its content was copied to where a group may read it."""
    if os.geteuid() != 0:
        pytest.skip("only root can make another user's link")
    (tmp_path / "code").mkdir()
    (tmp_path / "private").write_text("precious")
    for name, owner in (("theirs", 61002), ("ours", 0)):
        os.symlink(tmp_path / "private", tmp_path / "code" / name)
        os.chown(tmp_path / "code" / name, owner, owner, follow_symlinks=False)
    listing = scan(str(tmp_path / "code"))
    assert [name for name, _ in listing.files] == ["ours"]
    assert listing.links == [("theirs", str(tmp_path / "code" / "theirs"))], "through theirs: never ours alone"
    assert any("the link belongs to uid 61002" in warning for warning in listing.warnings)


def test_links_of_anothers_that_lead_out_together_once_they_are_the_runs_own(tmp_path, place):
    """Found by review: each was looked at at a moment when it was harmless, and the next run believed both."""
    if os.geteuid() != 0:
        pytest.skip("only root can make another user's link")
    place.write("sub/key", "harmless")
    (tmp_path / "private").mkdir()
    (tmp_path / "private" / "key").write_text("precious")

    def theirs(name: str, target: object) -> None:
        path = os.path.join(place.code, name)
        if os.path.lexists(path):
            os.unlink(path)
        os.symlink(str(target), path)
        os.chown(path, 61002, 61002, follow_symlinks=False)

    theirs("s", "sub")
    theirs("v", "s/key")
    inside = scan(place.code)
    theirs("s", tmp_path / "private")
    outside = scan(place.code)
    links = [("s", dict(outside.links)["s"]), ("v", dict(inside.links)["v"])]
    paths = create_run(place.home)
    materialize(inside._replace(links=links), paths, place.objects)
    again = scan(paths.code)
    assert "v" not in [name for name, _ in again.files] and "v" in dict(again.links)


def test_whose_links_within_the_code_are_followed(place):
    """Found by review: none of them was asked whose it is, and all became the run's own, which this user's are."""
    if os.geteuid() != 0:
        pytest.skip("only root can make another user's link")
    place.write("data/file", "content")
    place.write("outputs/file", "content")
    for name, target, owner in (
        ("outputs/theirs", "../data/file", 61002),
        ("outputs/ours", "file", 0),
        ("through", "outputs/theirs", 0),
        ("outputs/nowhere", "../agent.pyz", 61002),
    ):
        os.symlink(target, os.path.join(place.code, name))
        os.chown(os.path.join(place.code, name), owner, owner, follow_symlinks=False)
    kept = {
        "outputs/theirs": place.code + "/outputs/theirs",
        "outputs/ours": "file",
        "through": place.code + "/outputs/theirs",
        "outputs/nowhere": place.code + "/outputs/nowhere",
    }
    listing = scan(place.code)
    assert dict(listing.links) == kept
    assert sum("the link belongs to uid 61002" in warning for warning in listing.warnings) == 3
    os.chown(place.code, 61002, 61002)  # who could change all of the code: their links are as good as their files
    listing = scan(place.code)
    assert dict(listing.links) == {
        "outputs/theirs": "../code/data/file",
        "outputs/ours": "file",
        "through": "data/file",
        "outputs/nowhere": "../code/agent.pyz",
    }
    assert listing.warnings == []


@pytest.fixture
def dropped(place, tmp_path):
    """Code with a directory where others may put files, and what they may not read: its text is `precious`."""
    place.write("incoming/sub/sample", "sample")
    place.write("incoming/one", "sample")
    (tmp_path / "private").mkdir()
    for name in ("sample", "one"):
        (tmp_path / "private" / name).write_text("precious")
    return place


def replace_by_link(path, target):
    os.rename(path, str(path) + ".former")
    os.symlink(target, path)


def test_a_file_replaced_by_a_link_once_it_was_listed(dropped, tmp_path):
    """Found by review: the link was followed, and what it led to was copied to where a group may read it."""
    listing = scan(dropped.code)
    replace_by_link(os.path.join(dropped.code, "incoming", "one"), tmp_path / "private" / "one")
    replace_by_link(os.path.join(dropped.code, "incoming", "sub"), tmp_path / "private")
    paths = create_run(dropped.home)
    taken = materialize(listing, paths, dropped.objects)
    assert len([each for each in taken.warnings if "it vanished during the scan" in each]) == 2
    assert [each for each in tree(paths.code).values() if each is not None] == []


def test_a_directory_replaced_by_a_link_before_it_is_entered(dropped, tmp_path, monkeypatch):
    """Found by review."""
    enter = IgnoreRules.enter

    def replace_first(rules, path, prefix, names, warnings):
        if "sub" in names:
            replace_by_link(os.path.join(path, "sub"), tmp_path / "private")
        return enter(rules, path, prefix, names, warnings)

    monkeypatch.setattr(IgnoreRules, "enter", replace_first)
    listing = scan(dropped.code)
    assert [name for name, _ in listing.files if "sub/" in name] == []


@pytest.mark.parametrize("then", ["nothing", "a file"])
def test_a_link_that_is_gone_once_it_was_listed(place, monkeypatch, then):
    """Found by review: whoever may write somewhere in the code had each snapshot fail."""
    place.write("t.py", "content")
    link = os.path.join(place.code, "link")
    os.symlink("t.py", link)

    def replace_first(path, *flags, **words):
        if path == "link" and os.path.islink(link):
            os.unlink(link)
            if then == "a file":
                place.write("link", "content")
        return opened(path, *flags, **words)

    opened = os.open
    monkeypatch.setattr(os, "open", replace_first)
    listing = scan(place.code)
    assert ([name for name, _ in listing.files], listing.links) == (["t.py"], [])
    assert listing.warnings == ["link: left out: it was replaced during the scan"]


def test_where_a_link_of_anothers_leads_is_told_while_it_is_exchanged(place, monkeypatch):
    if os.geteuid() != 0:
        pytest.skip("only root can make another user's link")

    def exchanged(path):
        if path.endswith("nowhere"):
            raise OSError(errno.EINVAL, os.strerror(errno.EINVAL))
        return realpath(path)

    os.symlink("nowhere", place.code + "/theirs")
    os.chown(place.code + "/theirs", 61002, 61002, follow_symlinks=False)
    realpath = os.path.realpath
    monkeypatch.setattr(os.path, "realpath", exchanged)
    assert scan(place.code).links == [("theirs", place.code + "/theirs")]


def test_a_link_that_leads_to_a_link_of_anothers(tmp_path):
    """Found by review: whose the first link is was looked at, and no further."""
    if os.geteuid() != 0:
        pytest.skip("only root can make another user's link")
    (tmp_path / "code").mkdir()
    (tmp_path / "private").write_text("precious")
    os.symlink(tmp_path / "private", tmp_path / "theirs")
    os.chown(tmp_path / "theirs", 61002, 61002, follow_symlinks=False)
    os.symlink(tmp_path / "theirs", tmp_path / "code" / "ours")
    listing = scan(str(tmp_path / "code"))
    assert (listing.files, listing.links) == ([], [("ours", str(tmp_path / "theirs"))])
    assert any("the link belongs to uid 61002" in warning for warning in listing.warnings)
