"""The record of a run: nothing secret, git without starting git, the diff without waiting."""

from __future__ import annotations

import json
import os
import shutil
import stat
import subprocess
import sys

import pytest

import worldsize.errors
from worldsize.snapshot.git import find_repository, read_git, start_git_diff
from worldsize.snapshot.run_record import installed_packages, make_record

SOURCE = os.path.dirname(os.path.dirname(worldsize.errors.__file__))


def record(**changed):
    values = {
        "version": "1.2",
        "job": {"environment_variables": {"API_KEY": "s3cret", "LR": "0.1"}, "command": "HF_TOKEN=s3cret x", "n": [1]},
        "argv": ["worldsize", "--token", "s3cret"],
        "environ": {"MY_SECRET": "s3cret", "PWD": "/x", "PROXY": "http://u:s3cret@p", "RAW": "\udcff"},
        "cwd": "/work \udcff",
        "code_dir": "/",
        "code_digest": "abc",
        "now": 1.5,
    }
    return make_record(**{**values, **changed})


def test_the_record_says_what_it_should_and_no_secret():
    value = record()
    text = json.dumps(value)
    assert "s3cret" not in text and json.loads(text) == value
    assert value["environment"] == {"MY_SECRET": "***", "PWD": "/x", "PROXY": "http://u:***@p", "RAW": "\udcff"}
    assert value["job"]["environment_variables"] == {"API_KEY": "***", "LR": "0.1"} and value["job"]["n"] == [1]
    assert value["code"] == {"directory": "/", "digest": "abc"} and value["created"] == 1.5
    assert value["python"]["executable"] == sys.executable and value["pid"] == os.getpid()
    assert value["host"] == os.uname().nodename and value["user"] and value["worldsize"] == "1.2"


def test_the_record_names_the_nodes_that_are_known():
    host = os.uname().nodename
    assert record(job={"compute": "local"})["nodes"] == {host: 1}
    assert record(job={"compute": "local", "resources": {"instance_count": 3}})["nodes"] == {host: 3}
    assert record(job={"compute": "cluster"})["nodes"] is None


def test_versions_are_read_off_directory_names(tmp_path):
    first, second = tmp_path / "a" / "site-packages", tmp_path / "b" / "dist-packages"
    for name in ("torch-2.13.0+cpu.dist-info", "NumPy-2.1.dist-info", "torch", "odd.dist-info", "left_pad-1.dist-info"):
        (first / name).mkdir(parents=True)
    for name in ("torch-1.0.dist-info", "scikit_learn-1.5.dist-info"):
        (second / name).mkdir(parents=True)
    path = ["", str(first), str(tmp_path / "gone" / "site-packages"), str(second), "/x.zip"]
    assert installed_packages(path) == {"numpy": "2.1", "scikit_learn": "1.5", "torch": "2.13.0+cpu"}
    assert record()["python"]["packages"] == installed_packages(sys.path)


def test_the_record_loads_no_subprocess():
    code = (
        "import sys; from worldsize.snapshot import run_record, git; "
        "assert not {'subprocess', 'shutil', 'pathlib', 'logging'} & set(sys.modules), sys.modules"
    )
    subprocess.run([sys.executable, "-c", code], check=True, env={"PYTHONPATH": SOURCE})


class Repository:
    """A real git repository with one commit."""

    def __init__(self, root: str) -> None:
        self.root = root
        os.makedirs(root)
        self.git("init", "-q", "-b", "trunk/one")
        self.write("a.py", "one\n")
        self.commit()

    def git(self, *words: str) -> str:
        environ = {"PATH": os.environ["PATH"], "HOME": self.root, "GIT_CONFIG_NOSYSTEM": "1"}
        identity = ("-c", "user.name=t", "-c", "user.email=t@example.org")
        done = subprocess.run(["git", *identity, *words], cwd=self.root, env=environ, check=True, capture_output=True)
        return done.stdout.decode().strip()

    def write(self, name: str, text: str) -> None:
        with open(os.path.join(self.root, name), "w") as file:
            file.write(text)

    def commit(self) -> None:
        self.git("add", "-A")
        self.git("commit", "-q", "-m", "x")

    @property
    def head(self) -> str:
        return self.git("rev-parse", "HEAD")


@pytest.fixture
def repository(tmp_path):
    return Repository(str(tmp_path / "repo \udcff"))


def test_commit_and_branch_from_git_files(repository):
    expected = {"commit": repository.head, "branch": "trunk/one"}
    os.mkdir(os.path.join(repository.root, "sub"))
    assert read_git(repository.root) == read_git(os.path.join(repository.root, "sub")) == expected
    repository.git("pack-refs", "--all")
    assert not os.path.exists(os.path.join(repository.root, ".git/refs/heads/trunk/one"))
    assert read_git(repository.root) == expected
    repository.git("checkout", "-q", "--detach")
    assert read_git(repository.root) == {"commit": repository.head, "branch": None}


def test_a_worktree(repository, tmp_path):
    tree = str(tmp_path / "tree")
    repository.git("worktree", "add", "-q", "-b", "side", tree)
    assert read_git(tree) == {"commit": repository.head, "branch": "side"}
    repository.git("pack-refs", "--all")
    assert read_git(tree) == {"commit": repository.head, "branch": "side"}


def test_no_commit_yet_and_no_repository(tmp_path):
    subprocess.run(["git", "init", "-q", "-b", "main", str(tmp_path / "new")], check=True)
    assert read_git(str(tmp_path / "new")) == {"commit": None, "branch": "main"}
    (tmp_path / "odd").mkdir()
    (tmp_path / "odd" / ".git").write_bytes(b"\xff\0 nonsense")
    (tmp_path / "broken" / ".git").mkdir(parents=True)
    assert read_git(str(tmp_path / "broken")) == {"commit": None, "branch": None}
    if find_repository(str(tmp_path.parent)) is None:
        assert read_git(str(tmp_path / "odd")) is None


HEADS = ["ref: {}", "ref: refs/heads/../../../secret", "ref: refs/heads/link", "{}", "hunter2"]


@pytest.mark.parametrize("head", HEADS)
def test_nothing_but_a_commit_and_a_branch_is_read(tmp_path, head):
    """Found by review: HEAD named any file, whose first line was written down as the commit."""
    secret = tmp_path / "secret"
    secret.write_text("hunter2\n")
    heads = tmp_path / "code" / ".git" / "refs" / "heads"
    heads.mkdir(parents=True)
    (heads / "link").symlink_to(secret)
    (tmp_path / "code" / ".git" / "packed-refs").symlink_to(secret)
    (tmp_path / "code" / ".git" / "HEAD").write_text(head.format(secret) + "\n")
    branch = "link" if "link" in head else None
    assert read_git(str(tmp_path / "code")) == {"commit": None, "branch": branch}


def test_a_pipe_in_place_of_a_repository_is_not_waited_for(tmp_path):
    """Found by review: in any directory above the code, it stopped each run."""
    (tmp_path / "code").mkdir()
    os.mkfifo(tmp_path / ".git")
    assert read_git(str(tmp_path / "code")) == read_git(str(tmp_path.parent))


def test_the_diff_is_written_beside_and_can_be_applied(repository, tmp_path):
    target = str(tmp_path / "code.diff")
    repository.write("a.py", "two\n")
    with open(os.path.join(repository.root, "new.bin"), "wb") as file:
        file.write(bytes(range(256)))
    repository.git("add", "new.bin")
    process = start_git_diff(repository.root, target, os.environ)
    assert process is not None and os.waitpid(process, 0) == (process, 0)
    assert stat.S_IMODE(os.stat(target).st_mode) == 0o600
    assert "+two" in open(target, errors="replace").read()
    repository.git("reset", "-q", "--hard")
    repository.git("apply", target)
    assert open(os.path.join(repository.root, "a.py")).read() == "two\n"
    assert open(os.path.join(repository.root, "new.bin"), "rb").read() == bytes(range(256))


def test_a_clean_tree_has_an_empty_diff(repository, tmp_path):
    target = str(tmp_path / "code.diff")
    process = start_git_diff(repository.root, target, os.environ)
    assert process is not None and os.waitpid(process, 0) == (process, 0)
    assert os.path.getsize(target) == 0


def test_no_diff_without_git_or_repository(repository, tmp_path, monkeypatch):
    target = str(tmp_path / "code.diff")
    outside = tmp_path / "outside"
    outside.mkdir()
    if find_repository(str(outside)) is None:
        assert start_git_diff(str(outside), target, os.environ) is None
    monkeypatch.setenv("PATH", str(outside))
    assert shutil.which("git") is None
    assert start_git_diff(repository.root, target, os.environ) is None
    assert not os.path.exists(target)
