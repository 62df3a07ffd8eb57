"""What a job stages, against stand-ins of the services, read by the real libraries without a network."""

from __future__ import annotations

import hashlib
import io
import json
import os
import subprocess
import sys
import zipfile
from collections.abc import Iterator, Mapping
from pathlib import Path

import pytest
from recorded_progress import RecordedProgress
from webserver import Reply, Site, serve

from worldsize.errors import BuildError, UsageError, WorldsizeError
from worldsize.plan.node_disk import DIRECTORY_MARK
from worldsize.service.request import StagingDirectory
from worldsize.wings.staging import http
from worldsize.wings.staging.fetch import DataStore
from worldsize.wings.staging.spec import staging_spec_of
from worldsize.wings.staging.stage import make_staging_directory, write_staging_directory

COMMIT = "0123456789abcdef0123456789abcdef01234567"
WEIGHTS = os.urandom(5000)


@pytest.fixture(autouse=True)
def _impatient(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(http.download, "__defaults__", (None, (0.0,), lambda _: None))
    monkeypatch.setattr(http.read, "__defaults__", (None, (0.0,)))


@pytest.fixture
def site() -> Iterator[Site]:
    with serve() as site:
        yield site


class Place:
    """A directory for staged things, and the environment that leads to the stand-ins."""

    def __init__(self, root: Path, site: Site) -> None:
        self.root = root
        self.directory = str(root / "data")
        self.told = RecordedProgress()
        self.environ = {
            "PATH": os.environ["PATH"],
            "HOME": str(root / "home"),
            "HF_ENDPOINT": site.url,
            "GITHUB_SERVER_URL": site.url,
        }

    def stage(self, **values: object) -> StagingDirectory:
        data = DataStore(self.directory, self.told)
        return make_staging_directory(
            staging_spec_of(values), self.directory, data, sys.executable, self.environ, self.environ
        )

    def run(self, staged: StagingDirectory, program: str) -> list[str]:
        """What a rank's Python prints that finds these variables, and a network that leads nowhere."""
        own = {name: value.replace(DIRECTORY_MARK, str(self.root / "node")) for name, value in staged.variables.items()}
        nowhere = dict.fromkeys(("http_proxy", "https_proxy", "HTTP_PROXY", "HTTPS_PROXY"), "http://127.0.0.1:9")
        done = subprocess.run(
            [sys.executable, "-c", program],
            env={"PATH": os.environ["PATH"], "HOME": str(self.root / "home"), **nowhere, **own},
            capture_output=True,
            text=True,
        )
        assert done.returncode == 0, done.stderr
        return done.stdout.splitlines()


@pytest.fixture
def place(tmp_path: Path, site: Site) -> Place:
    return Place(tmp_path, site)


# Hugging Face


def git_sha1(content: bytes) -> str:
    return hashlib.sha1(b"blob %d\0" % len(content) + content).hexdigest()


def a_repository(site: Site, name: str, files: Mapping[str, bytes], kind: str = "models", ref: str = "main") -> None:
    siblings = []
    for file, content in files.items():
        large = {"lfs": {"sha256": hashlib.sha256(content).hexdigest(), "size": len(content), "pointerSize": 130}}
        more = large if file.endswith((".bin", ".safetensors")) else {}
        siblings.append({"rfilename": file, "size": len(content), "blobId": git_sha1(content), **more})
        prefix = "" if kind == "models" else kind + "/"
        site.files["/%s%s/resolve/%s/%s" % (prefix, name, COMMIT, file)] = content
    answer = json.dumps({"id": name, "sha": COMMIT, "siblings": siblings}).encode()
    for revision in (ref, COMMIT):
        site.replies["/api/%s/%s/revision/%s?blobs=true" % (kind, name, revision)] = (200, {}, answer)


FILES = {"config.json": b'{"a": 1}', "model.safetensors": WEIGHTS, "deep/vocab.txt": b"a\nb\n", "tf_model.h5": b"h5"}


@pytest.mark.slow
def test_the_hubs_own_library_finds_it_without_a_network(site: Site, place: Place) -> None:
    pytest.importorskip("huggingface_hub")
    a_repository(site, "org/name", FILES)
    a_repository(site, "squad", {"train.json": b"[]"}, "datasets")
    staged = place.stage(huggingface=["org/name *.json *.safetensors deep/*", "datasets/squad"])
    lines = place.run(
        staged,
        "from huggingface_hub import snapshot_download, hf_hub_download\n"
        "import os\n"
        "path = snapshot_download('org/name')\n"
        "print(sorted(os.listdir(path)), open(path + '/deep/vocab.txt').read().split())\n"
        "print(open(hf_hub_download('org/name', 'config.json')).read())\n"
        "print(len(open(hf_hub_download('org/name', 'model.safetensors'), 'rb').read()))\n"
        "print(os.listdir(snapshot_download('squad', repo_type='dataset')))\n"
        "try: snapshot_download('org/other')\n"
        "except Exception as error: print(type(error).__name__)\n",
    )
    assert lines[:4] == [
        "['config.json', 'deep', 'model.safetensors'] ['a', 'b']",
        '{"a": 1}',
        "5000",
        "['train.json']",
    ]
    assert "Not" in lines[4] or "Offline" in lines[4]
    assert staged.variables["HF_HUB_OFFLINE"] == "1" and "tf_model.h5" not in str(staged.contents)


def test_it_is_fetched_once_and_checked(site: Site, place: Place) -> None:
    a_repository(site, "org/name", FILES)
    first = place.stage(huggingface=["org/name"])
    asked = len(site.asked)
    assert place.stage(huggingface=["org/name"]).path == first.path
    assert [each.path for each in site.asked[asked:]] == ["/api/models/org/name/revision/main?blobs=true"]
    blobs = Path(place.directory, "hub", "models--org--name", "blobs")
    assert all(blob.stat().st_mode & 0o222 == 0 for blob in blobs.iterdir()) and len(list(blobs.iterdir())) == 4

    site.files["/org/name/resolve/%s/config.json" % COMMIT] = b'{"a": 2}'
    (blobs / git_sha1(FILES["config.json"])).unlink()
    with pytest.raises(UsageError, match="differs from the hub's checksum"):
        place.stage(huggingface=["org/name"])


def test_what_has_arrived_of_a_file_is_kept_for_the_next_time(site: Site, place: Place) -> None:
    """The hub's own library (2.4) begins anew."""
    weights = os.urandom(3 << 20)
    a_repository(site, "org/name", {"model.safetensors": weights})
    sent = iter([(1 << 20) + 7, 0])

    def act(method: str, path: str, headers: Mapping[str, str]) -> Reply | None:
        if not path.startswith("/api/"):
            site.breaks.append(next(sent))
        return None

    site.acts = act
    with pytest.raises(WorldsizeError, match="the connection broke"):
        place.stage(huggingface=["org/name"])
    site.acts = None
    staged = place.stage(huggingface=["org/name"])
    assert int(site.asked[-1].headers["range"][len("bytes=") : -1]) >= 1 << 20
    name = "huggingface/hub/models--org--name/snapshots/%s/model.safetensors" % COMMIT
    assert Path(staged.path, name).read_bytes() == weights


def test_the_token_is_for_the_hub_alone(site: Site, place: Place) -> None:
    """Large files lie elsewhere; and what the answer's ETag says is not a file name."""
    place.environ["HF_TOKEN"] = "hf_verysecret"
    a_repository(site, "org/name", {"model.safetensors": WEIGHTS})
    with serve() as other:
        other.replies["/elsewhere"] = (200, {"ETag": '"../../../../evil"'}, WEIGHTS)
        path = "/org/name/resolve/%s/model.safetensors" % COMMIT
        site.replies[path] = (302, {"Location": other.url + "/elsewhere"}, b"")
        place.stage(huggingface=["org/name"])
        assert [each.headers.get("authorization") for each in site.asked] == ["Bearer hf_verysecret"] * 2
        assert [each.headers.get("authorization") for each in other.asked] == [None]
    assert not list(place.root.rglob("evil*"))


@pytest.mark.parametrize("key", ["blobId", "lfs", "sha"])
@pytest.mark.parametrize("said", ["../../../evil", "/tmp/evil", "0" * 39 + "/", "é" * 40, 7, None])
def test_a_checksum_becomes_a_name_of_a_file_and_is_one(site: Site, place: Place, key: str, said: object) -> None:
    """Found by review: a server that is not the hub could have files made anywhere."""
    a_repository(site, "org/name", FILES)
    for path, (code, headers, answer) in list(site.replies.items()):
        value = json.loads(answer)
        if key == "sha":
            value["sha"] = said
        for sibling in value["siblings"]:
            if key == "lfs" and "lfs" in sibling:
                sibling["lfs"]["sha256"] = said
            elif key == "blobId":
                sibling["blobId"] = said
        site.replies[path] = (code, headers, json.dumps(value).encode())
    with pytest.raises(WorldsizeError, match="is not an answer of a Hugging Face hub"):
        place.stage(huggingface=["org/name"])
    assert not list(place.root.rglob("evil*"))


OUTSIDE = ("../../../../victim", "a/../../../../../victim", "..", ".", "/victim", "a//b", "a/", "./a", "a/./b")


@pytest.mark.parametrize("revision", OUTSIDE)
def test_a_revision_is_no_way_out(site: Site, place: Place, revision: str) -> None:
    """Found by review: it becomes a file's name, and a hub that answers to it had a file made anywhere."""
    a_repository(site, "org/name", FILES)
    answer = next(iter(site.replies.values()))
    site.acts = lambda method, path, headers: answer if path.startswith("/api/") else None
    for values in ({"huggingface": ["org/name@" + revision]}, {"torch_hub": ["org/name:" + revision]}):
        with pytest.raises(ValueError, match=r"(?:huggingface|torch_hub): .* is not a (?:repository|revision's name)"):
            place.stage(**values)
    assert not list(place.root.rglob("victim*")) and site.asked == []


@pytest.mark.parametrize(
    "name", ["../name", "org/..", "..", "./name", "org/.", "datasets/..", "org/na\x01me", "a\0b/c", "/x"]
)
@pytest.mark.parametrize("key", ["huggingface", "torch_hub"])
def test_a_repository_has_a_plain_name(place: Place, key: str, name: str) -> None:
    with pytest.raises(ValueError, match=key + ": .* is "):
        place.stage(**{key: [name]})


@pytest.mark.parametrize("path", ["../x", "/x", "a/../../x", ".", "", "a\0b", "a\nb", "a\x1bb"])
def test_data_has_a_plain_name(place: Place, path: str) -> None:
    with pytest.raises(ValueError, match=r"data: .* is not a relative path"):
        place.stage(data={path: "https://host/x"})


@pytest.mark.parametrize("name", ["../victim", "a/../../victim", "/victim", ""])
def test_nothing_is_laid_out_elsewhere_whoever_says_so(place: Place, name: str) -> None:
    part = place.root / "part"
    for links, texts in (({name: "/etc/hostname"}, {}), ({}, {name: "text"})):
        with pytest.raises(UsageError, match="leads out"):
            write_staging_directory(str(part), str(part), links, texts, {})
    assert not list(place.root.rglob("victim"))


def test_a_new_commit_is_another_stage_and_the_old_one_stays(site: Site, place: Place) -> None:
    a_repository(site, "org/name", FILES)
    first = place.stage(huggingface=["org/name"])
    a_repository(site, "org/name", {**FILES, "config.json": b"{}"})
    second = place.stage(huggingface=["org/name"])
    name = "huggingface/hub/models--org--name/snapshots/%s/config.json" % COMMIT
    assert [Path(each.path, name).read_bytes() for each in (first, second)] == [FILES["config.json"], b"{}"]


def test_without_the_hub_what_is_here_is_used_and_said(place: Place) -> None:
    with serve() as site:
        place.environ["HF_ENDPOINT"] = site.url
        a_repository(site, "org/name", FILES)
        first = place.stage(huggingface=["org/name"])
    assert place.stage(huggingface=["org/name"]).path == first.path
    assert "commit 0123456789ab of org/name is used" in place.told.notices[-1]
    with pytest.raises(WorldsizeError, match="Connection refused"):
        place.stage(huggingface=["org/other"])


def test_what_the_hub_refuses(site: Site, place: Place) -> None:
    with pytest.raises(UsageError, match="404") as missing:
        place.stage(huggingface=["org/none@v2"])
    assert "is there a org/none, and a revision v2?" in str(missing.value)
    site.replies["/api/models/org/gated/revision/main?blobs=true"] = (401, {}, b"")
    with pytest.raises(UsageError, match="401") as gated:
        place.stage(huggingface=["org/gated"])
    assert "HF_TOKEN" in str(gated.value)
    place.environ["HF_TOKEN"] = "hf_verysecret"
    with pytest.raises(UsageError) as still:
        place.stage(huggingface=["org/gated"])
    assert site.asked[-1].headers["authorization"] == "Bearer hf_verysecret" and "verysecret" not in str(still.value)
    a_repository(site, "org/evil", {"../../evil": b"x"})
    with pytest.raises(UsageError, match="leads outside it"):
        place.stage(huggingface=["org/evil"])
    a_repository(site, "org/name", FILES)
    with pytest.raises(UsageError, match=r"no file of org/name matches \*\.onnx"):
        place.stage(huggingface=["org/name *.onnx"])


# torch.hub


def a_zip(files: Mapping[str, str]) -> bytes:
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w") as archive:
        for name, text in files.items():
            archive.writestr(name, text)
    return buffer.getvalue()


@pytest.mark.slow
def test_torch_hub_finds_it_without_a_network(site: Site, place: Place) -> None:
    pytest.importorskip("torch")
    hubconf = "import torch\ndef five(): return torch.hub.load_state_dict_from_url('https://host/five-%s.pth')\n"
    buffer = io.BytesIO()
    import torch

    torch.save({"five": 5}, buffer)
    name = "five-%s.pth" % hashlib.sha256(buffer.getvalue()).hexdigest()[:8]
    site.files["/" + name] = buffer.getvalue()
    site.files["/o/n/zipball/v1.0"] = a_zip({"o-n-abc/hubconf.py": hubconf % name[5:13]})
    site.files["/o/m/tree/main/"] = b"<html>"
    site.files["/o/m/zipball/main"] = a_zip({"o-m-abc/hubconf.py": "def six(): return 6\n"})
    site.files["/o/old/zipball/master"] = a_zip({"o-old-abc/hubconf.py": "def seven(): return 7\n"})
    staged = place.stage(torch_hub=["o/n:v1.0", "o/m", "o/old", "%s/%s" % (site.url, name)])
    lines = place.run(
        staged,
        "import torch\n"
        "print(torch.hub.load('o/n:v1.0', 'five', trust_repo='check'))\n"
        "print(torch.hub.load('o/m', 'six'), torch.hub.load('o/old:master', 'seven'))\n",
    )
    assert lines == ["{'five': 5}", "6 7"]


def test_torch_hub_is_sent_no_repository(site: Site, place: Place) -> None:
    """Found by review: that was a traceback."""
    site.files["/o/n/zipball/main"] = a_zip({"a/x": "1", "b/x": "2"})
    with pytest.raises(UsageError, match="not an archive of a repository: it has 2"):
        place.stage(torch_hub=["o/n:main"])


def test_a_checkpoint_is_what_its_name_says(site: Site, place: Place) -> None:
    site.files["/net-0123abcd.pth"] = b"something else"
    with pytest.raises(UsageError, match="does not begin like its name"):
        place.stage(torch_hub=[site.url + "/net-0123abcd.pth"])


# pip and uv


def a_wheel(folder: Path, name: str = "tiny", needs: str = "") -> None:
    info = "%s-1.0.dist-info/" % name
    meta = "Metadata-Version: 2.1\nName: %s\nVersion: 1.0\n%s" % (name, "Requires-Dist: %s\n" % needs if needs else "")
    files = {
        name + ".py": "NAME = %r\n" % name,
        info + "METADATA": meta,
        info + "WHEEL": "Wheel-Version: 1.0\nGenerator: test\nRoot-Is-Purelib: true\nTag: py3-none-any\n",
    }
    record = "".join("%s,,\n" % each for each in [*files, info + "RECORD"])
    folder.mkdir(exist_ok=True)
    (folder / ("%s-1.0-py3-none-any.whl" % name)).write_bytes(a_zip({**files, info + "RECORD": record}))


@pytest.mark.heavy
def test_ranks_install_without_a_network(place: Place) -> None:
    a_wheel(place.root / "index", "tiny", "smaller")
    a_wheel(place.root / "index", "smaller")
    listed = place.root / "requirements.txt"
    listed.write_text("--no-index\n--find-links %s\ntiny==1.0\n" % (place.root / "index"))
    staged = place.stage(pip=["-r %s" % listed])
    assert sorted(staged.contents["wheels"]) == ["smaller-1.0-py3-none-any.whl", "tiny-1.0-py3-none-any.whl"]
    assert place.stage(uv=["-r %s" % listed]).path == staged.path and len(place.told.notices) == 1
    target = place.root / "target"
    uv = os.path.join(os.path.dirname(sys.executable), "uv")
    install = [[sys.executable, "-m", "pip", "install", "--quiet", "--target", str(target / "pip"), "tiny"]]
    if os.path.exists(uv):
        install.append([uv, "pip", "install", "--quiet", "--target", str(target / "uv"), "tiny"])
    for words in install:
        lines = place.run(staged, "import subprocess; subprocess.run(%r, check=True)" % words)
        assert lines == [] and sorted(name for name in os.listdir(words[-2]) if name.endswith(".py")) == [
            "smaller.py",
            "tiny.py",
        ]


@pytest.mark.exhaustive
@pytest.mark.heavy
def test_what_pip_cannot_find(place: Place) -> None:
    with pytest.raises(UsageError, match=r"pip could not fetch them(?s:.*)no-such-thing") as refused:
        place.stage(pip=["--no-index", "no-such-thing==1"])
    assert refused.value.where == "stage.pip"
    with pytest.raises(UsageError, match=r"no such file or directory: /no/such/file\.txt"):
        place.stage(pip=["-r /no/such/file.txt"])


# data


@pytest.mark.heavy
def test_a_tree_with_a_password_is_not_built(place: Place) -> None:
    """Found by review: pip starts git with it."""
    tree = place.root / "tree"
    tree.mkdir()
    said = (
        "[project]\nname = 'tree'\nversion = '1'\ndependencies = ['dep @ git+https://anna:hunter2@127.0.0.1:9/dep']\n"
    )
    (tree / "pyproject.toml").write_text(said)
    for line in (str(tree), "tree @ file://%s" % tree):
        with pytest.raises(BuildError, match="holds a password") as refused:
            place.stage(pip=[line])
        assert "hunter2" not in str(refused.value)


def test_data_lies_where_the_job_says(site: Site, place: Place) -> None:
    site.files["/x.gz"] = b"x"
    digest = hashlib.sha256(b"x").hexdigest()
    staged = place.stage(data={"MNIST/raw/x.gz": "%s/x.gz#sha256=%s" % (site.url, digest), "y": site.url + "/x.gz"})
    program = "import os; print(open(os.environ['WORLDSIZE_DATA'] + '/MNIST/raw/x.gz').read())"
    assert place.run(staged, program) == ["x"]
    with pytest.raises(UsageError, match="its sha256 is"):
        place.stage(data={"x": "%s/x.gz#sha256=%s" % (site.url, "0" * 64)})


def test_a_local_file_is_staged_as_it_is_now(place: Place) -> None:
    place.root.joinpath("x").write_text("before")
    staged = place.stage(data={"deep/x": str(place.root / "x")})
    place.root.joinpath("x").write_text("after")
    assert Path(staged.path, "data/deep/x").read_text() == "before"
    with pytest.raises(UsageError, match="is not a file"):
        place.stage(data={"x": str(place.root)})


def test_the_directory_may_have_another_name_on_the_nodes(site: Site, place: Place) -> None:
    site.files["/x.gz"] = b"x"
    staged = place.stage(data={"deep/x": site.url + "/x.gz"})
    moved = place.root / "elsewhere"
    os.rename(place.directory, moved)
    assert (moved / os.path.relpath(staged.path, place.directory) / "data/deep/x").read_bytes() == b"x"
