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
from worldsize.environment.git import find_git_dir, finish_git_diff, read_git, start_git_diff
from worldsize.environment.record import installed_packages, make_record
from worldsize.trust.secrets import is_secret_name, mask, mask_argv, mask_text

SOURCE = os.path.dirname(os.path.dirname(worldsize.errors.__file__))

SECRET_NAMES = """
HF_TOKEN HUGGING_FACE_HUB_TOKEN GITHUB_TOKEN API_TOKENS WANDB_API_KEY OPENAI_API_KEY APIKEY AWS_SECRET_ACCESS_KEY secret
DB_PASSWORD dbPassword PGPASSWORD MYSQL_PWD DB_PASS SSH_PASSPHRASE MY_CREDENTIALS AZURE_CLIENT_SECRET clientSecret
BASIC_AUTH COOKIE SESSION_COOKIES AZURE_STORAGE_SAS AZURE_STORAGE_CONNECTION_STRING connectionString --api-key
GOOGLE_APPLICATION_CREDENTIALS AccountKey authToken http.proxy.password x_amz_signature
GITHUB_PAT patHuggingFace PATH_TOKEN PAT_PATH
"""

PUBLIC_NAMES = """
PWD OLDPWD PATH HOME TOKENIZERS_PARALLELISM KEYBOARD MONKEY_BUSINESS AUTHOR AUTHORS COMPASS BYPASS_CACHE PASSES USER
CUDA_VISIBLE_DEVICES CONNECTIONS PWDX SASHA SIGNAL DESIGN lr WORLD_SIZE NCCL_SOCKET_IFNAME PYTHONPATH MANPATH_2
"""

TOKENS = """
ghp_ gho_ ghs_ ghu_ ghr_ github_pat_ glpat- hf_ xoxb- xoxp- sk- AKIA eyJhbGciOi.
"""


@pytest.mark.parametrize("name", SECRET_NAMES.split())
def test_secret_names(name):
    assert is_secret_name(name) and mask(name, "hunter2") == "***" and mask(name, "") == ""


@pytest.mark.parametrize("name", PUBLIC_NAMES.split())
def test_public_names(name):
    assert not is_secret_name(name) and mask(name, "plain") == "plain"


@pytest.mark.parametrize(
    ("text", "masked"),
    [
        ("postgres://me:pa:ss@w@db/x", "postgres://me:***@db/x"),
        ("http://:p@proxy:3128", "http://:***@proxy:3128"),
        ("clone https://ghp_abc@github.com/x.git", "clone https://***@github.com/x.git"),
        ("ssh://git@host/x", "ssh://git@host/x"),
        ("http://host:8080/a@b", "http://host:8080/a@b"),
        ("Authorization: Bearer abcdefgh.ijkl", "Authorization: Bearer ***"),
        ("token hf_abcdefghijklmnop here", "token *** here"),
        *((token + "0123456789ABCDEFABCD", "***") for token in TOKENS.split()),
        ("a\r--token abc", "a\r--token ***"),
        ("https://a.blob/x?sv=1&sig=ab%3D&se=2", "https://a.blob/x?sv=1&sig=***&se=2"),
        ("Endpoint=x;AccountKey=abc==;More=1", "Endpoint=x;AccountKey=***;More=1"),
        ("export HF_TOKEN='a b'; LR=1 python t.py", "export HF_TOKEN=***; LR=1 python t.py"),
        ("URL=ftp://u:p@h/ x", "URL=ftp://u:***@h/ x"),
        ("--token 'a b' --lr 1", "--token *** --lr 1"),
        ("python t.py\n--api-key abc", "python t.py\n--api-key ***"),
        ("python t.py --token $TOKEN", "python t.py --token $TOKEN"),
        ("curl -H 'X-Api-Key: abc' -H 'Accept: text/html' h", "curl -H 'X-Api-Key: ***' -H 'Accept: text/html' h"),
        ("curl -H 'Authorization: token abcdefgh' h", "curl -H 'Authorization: token ***' h"),
        ("Authorization: token abcdefgh", "Authorization: token ***"),
        ('{"db": {"password": "x y", "port": 1}}', '{"db": {"password": "***", "port": 1}}'),
        ("KeyError: 'key: x' in 'keys: a, b'", "KeyError: 'key: x' in 'keys: a, b'"),
        ("a\n-----BEGIN RSA PRIVATE KEY-----\nMII\n-----END RSA PRIVATE KEY-----\nb", "a\n***\nb"),
        ("-----BEGIN PRIVATE KEY-----\nMII", "***"),
        ("lr=0.1 task-sk-learn half_a_dozen_things", "lr=0.1 task-sk-learn half_a_dozen_things"),
        ("rs=0:di=01;34:ln=01;36", "rs=0:di=01;34:ln=01;36"),
        ("\udcff\n", "\udcff\n"),
    ],
)
def test_secrets_in_text(text, masked):
    assert mask_text(text) == masked


def test_masking_is_linear():
    parts = (
        "a-",
        "eyJ-",
        "://a:",
        "a.b+",
        "-",
        "=",
        "'a",
        "'a: ",
        "/t/",
        "a://h/t",
        "Authorization: ",
        "-a ",
        "-----BEGIN PRIVATE KEY-----",
    )
    for text in (part * (400_000 // len(part)) for part in parts):
        assert len(mask_text(text)) == len(text) or "***" in mask_text(text)


def test_secrets_in_a_command_line():
    argv = [
        "run",
        "--api-key",
        "abc",
        "--set",
        "inputs.password=x",
        "--token=y",
        "--password",
        "--lr",
        "0.1",
        "https://u:p@h",
    ]
    assert mask_argv(argv) == [
        *("run", "--api-key", "***", "--set", "inputs.password=***", "--token=***", "--password", "--lr", "0.1"),
        "https://u:***@h",
    ]


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
        "import sys; from worldsize.environment import record, git; "
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
    if find_git_dir(str(tmp_path.parent)) is None:
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
    assert process is not None and finish_git_diff(process) and finish_git_diff(process)
    assert stat.S_IMODE(os.stat(target).st_mode) == 0o600
    assert "+two" in open(target, errors="replace").read()
    repository.git("reset", "-q", "--hard")
    repository.git("apply", target)
    assert open(os.path.join(repository.root, "a.py")).read() == "two\n"
    assert open(os.path.join(repository.root, "new.bin"), "rb").read() == bytes(range(256))


def test_a_clean_tree_has_an_empty_diff(repository, tmp_path):
    target = str(tmp_path / "code.diff")
    process = start_git_diff(repository.root, target, os.environ)
    while not finish_git_diff(process, wait=False):
        pass
    assert os.path.getsize(target) == 0


def test_no_diff_without_git_or_repository(repository, tmp_path, monkeypatch):
    target = str(tmp_path / "code.diff")
    outside = tmp_path / "outside"
    outside.mkdir()
    if find_git_dir(str(outside)) is None:
        assert start_git_diff(str(outside), target, os.environ) is None
    monkeypatch.setenv("PATH", str(outside))
    assert shutil.which("git") is None
    assert start_git_diff(repository.root, target, os.environ) is None
    assert not os.path.exists(target)
