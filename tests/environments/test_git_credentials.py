"""Passwords of git repositories: those who fetch get them, and the machine's other users never see them."""

from __future__ import annotations

import base64
import os
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Thread
from typing import NamedTuple

import pytest
from driver import Cli, Result
from wheels import Links

SECRETS = ("CanaryOfAnna", "CanaryOfBert", "Canary%2FOf:Cora", "CanaryOfDora", "CanaryOfTheIndex")
BUILDING = 240
pytestmark = pytest.mark.timeout(BUILDING + 60)
"""Seconds after which a build counts as one that hangs: pip makes an environment for each source tree."""

PROJECT = """\
[build-system]
requires = ["setuptools"]
build-backend = "setuptools.build_meta"
[project]
name = "{0}"
version = "1.0"
[tool.setuptools]
py-modules = ["{0}"]
"""


class Seen(NamedTuple):
    """A request: for which repository, with which user and password, and the command lines of all processes then."""

    repository: str
    login: str
    lines: tuple[str, ...]


class Host:
    """git's own server behind passwords: `url` is its address, `logins` are "user:password" by repository."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self.logins: dict[str, str] = {}
        self.seen: list[Seen] = []
        self.url = ""

    def make_repository(self, name: str, login: str) -> None:
        work, bare = self.root / (name + ".work"), self.root / "served" / (name + ".git")
        work.mkdir(parents=True)
        (work / "pyproject.toml").write_text(PROJECT.format(name))
        (work / (name + ".py")).write_text("VALUE = 5\n")
        for words in (
            ["init", "-q", "-b", "main", str(work)],
            ["-C", str(work), "add", "-A"],
            ["-C", str(work), "-c", "user.name=a", "-c", "user.email=a@b", "commit", "-qm", "first"],
            ["clone", "-q", "--bare", str(work), str(bare)],
            ["-C", str(bare), "config", "uploadpack.allowFilter", "true"],
        ):
            subprocess.run(["git", *words], check=True)
        self.logins[name] = login

    def with_login(self, login: str) -> str:
        return "git+" + self.url.replace("://", "://%s@" % login)

    def said(self) -> set[str]:
        return {line for seen in self.seen for line in seen.lines}

    def granted(self) -> set[str]:
        return {seen.repository for seen in self.seen if seen.login == self.logins[seen.repository]}


@contextmanager
def served(root: Path) -> Iterator[Host]:
    host = Host(root)

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            self.answer(b"")

        def do_POST(self) -> None:
            self.answer(self.rfile.read(int(self.headers["Content-Length"])))

        def answer(self, body: bytes) -> None:
            path, _, query = self.path.partition("?")
            name = path.split("/")[1].removesuffix(".git")
            word = self.headers.get("Authorization", "").removeprefix("Basic ")
            login = base64.b64decode(word).decode()
            host.seen.append(Seen(name, login, tuple(command_lines())))
            if login != host.logins[name]:
                self.send_response(401)
                self.send_header("WWW-Authenticate", 'Basic realm="git"')
                self.send_header("Content-Length", "0")
                self.end_headers()
                return
            done = subprocess.run(
                ["git", "http-backend"],
                input=body,
                capture_output=True,
                check=True,
                env={
                    "PATH": os.environ["PATH"],
                    "GIT_PROJECT_ROOT": str(host.root / "served"),
                    "GIT_HTTP_EXPORT_ALL": "1",
                    "PATH_INFO": path,
                    "QUERY_STRING": query,
                    "REQUEST_METHOD": self.command,
                    "CONTENT_TYPE": self.headers.get("Content-Type", ""),
                    "CONTENT_LENGTH": str(len(body)),
                    "HTTP_CONTENT_ENCODING": self.headers.get("Content-Encoding", ""),
                    "GIT_PROTOCOL": self.headers.get("Git-Protocol", ""),
                    "REMOTE_USER": "anna",
                },
            ).stdout
            head, _, content = done.partition(b"\r\n\r\n")
            self.send_response(200)
            for line in head.decode().split("\r\n"):
                header, _, value = line.partition(": ")
                self.send_header(header, value)
            self.send_header("Content-Length", str(len(content)))
            self.end_headers()
            self.wfile.write(content)

        def log_message(self, *_: object) -> None:
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    server.daemon_threads = True
    host.url = "http://127.0.0.1:%d" % server.server_address[1]
    Thread(target=server.serve_forever, args=(0.01,), daemon=True).start()
    try:
        yield host
    finally:
        server.shutdown()
        server.server_close()


def command_lines() -> Iterator[str]:
    for process in Path("/proc").iterdir():
        if process.name.isdecimal():
            try:
                yield (process / "cmdline").read_bytes().replace(b"\0", b" ").decode(errors="replace")
            except OSError:
                pass  # it has ended


@pytest.fixture
def host(tmp_path: Path) -> Iterator[Host]:
    with served(tmp_path / "git") as host:
        host.make_repository("one", "anna:CanaryOfAnna")
        host.make_repository("two", "bert:CanaryOfBert")
        host.make_repository("three", "cora:Canary/Of:Cora")
        yield host


def wanted(cli: Cli, host: Host) -> str:
    """A requirements file: one repository by a file that it includes, two with other logins at the same host."""
    os.makedirs(os.path.join(cli.project, "more"))
    cli.write("more/third.txt", "three @ %s/three.git@main\n" % host.with_login("cora:Canary%2FOf:Cora"))
    cli.write("more/second.txt", "-r third.txt\ntwo @ %s/two.git\n" % host.with_login("bert:${PASSWORD_OF_BERT}"))
    return "one @ %s/one.git ; python_version > '3'\n-r more/second.txt\n" % host.with_login("anna:CanaryOfAnna")


def check(cli: Cli, host: Host, result: Result) -> None:
    assert result.code == 0, result
    assert host.granted() == {"one", "two", "three"}
    lines = host.said()
    assert any("git" in line and host.url[7:] in line for line in lines), "git is seen while it fetches"
    assert [line for line in lines if any(secret in line for secret in (*SECRETS, "Canary/Of"))] == []
    assert "Canary" not in result.out + result.err
    for path in Path(cli.root, "home").rglob("*"):
        if path.is_file() and not path.is_symlink():
            assert b"Canary" not in path.read_bytes(), path


def test_an_environment_of_repositories_with_passwords(cli: Cli, host: Host, with_setuptools: Links) -> None:
    """Found by review: all users of the machine could read them in the command lines of git and of its helpers."""
    cli.environ.update(PASSWORD_OF_BERT="CanaryOfBert", GIT_CONFIG_COUNT="1")
    cli.environ.update(GIT_CONFIG_KEY_0="http.userAgent", GIT_CONFIG_VALUE_0="ours")
    cli.write("requirements.txt", with_setuptools.requirements() + wanted(cli, host))
    command = "python -c 'import one, two, three; print(one.VALUE)'"
    cli.write("job.yml", "command: %s\nenvironment: requirements.txt\n" % command)
    result = cli("run", "job.yml", timeout=BUILDING)
    check(cli, host, result)
    assert "0:0: 5" in result.out
    lock = cli.json("env", "show", cli.json("env", "list")[0]["name"])
    assert "@127" not in str(lock["pip"]) or "***@127" in str(lock["pip"])


@pytest.mark.exhaustive
def test_a_project_that_wants_repositories_with_passwords(cli: Cli, host: Host, with_setuptools: Links) -> None:
    cora = host.with_login("cora:Canary%2FOf:Cora").removeprefix("git+")
    cli.write(
        "pyproject.toml",
        '[project]\nname = "p"\nversion = "1"\nrequires-python = ">=3.9"\ndependencies = [\n'
        '  "one[extra] @ %s/one.git@main ; python_version > \'3\'", "two @ %s/two.git", "Three >= 1"]\n'
        % (host.with_login("anna:CanaryOfAnna"), host.with_login("bert:CanaryOfBert"))
        + '[tool.uv.sources]\nthree = { git = "%s/three.git", branch = "main" }\n' % cora
        + "[tool.uv]\nno-index = true\nfind-links = ['%s']\n" % with_setuptools.directory,
    )
    cli.write("job.yml", "command: python -c 'import one, two, three; print(one.VALUE)'\nenvironment: pyproject.toml\n")
    check(cli, host, cli("run", "job.yml"))


@pytest.mark.exhaustive
def test_wheels_of_repositories_with_passwords(cli: Cli, host: Host, with_setuptools: Links) -> None:
    """Found by review: in pip's too, and a notice showed them to whoever looked on."""
    cli.environ["PASSWORD_OF_BERT"] = "CanaryOfBert"
    more = "--extra-index-url http://anna:CanaryOfTheIndex@127.0.0.1:9/simple"
    listed = with_setuptools.requirements(more) + wanted(cli, host)
    cli.write("requirements.txt", listed)
    cli.write("job.yml", "command: ls $PIP_FIND_LINKS\nstage:\n  pip: requirements.txt\n")
    result = cli("run", "job.yml", timeout=BUILDING)
    check(cli, host, result)
    assert "three-1.0-py3-none-any.whl" in result.out


def test_what_wheels_are_fetched_for_is_said_without_passwords(cli: Cli, host: Host) -> None:
    lines = [
        "--index-url http://anna:CanaryOfTheIndex@127.0.0.1:9/simple",
        "one @ %s/one.git" % host.with_login("a:CanaryX"),
    ]
    cli.write("job.yml", "command: 'true'\nstage:\n  pip: [%s]\n" % ", ".join('"%s"' % line for line in lines))
    result = cli("run", "job.yml", PIP_RETRIES="0")
    assert result.code == 2 or result.code == 1, result
    assert "fetching wheels for --index-url http://anna:***@127.0.0.1:9/simple, one @ git+http" in result.err
    assert "Canary" not in result.err + result.out and not any("CanaryX" in line for line in host.said())


def test_alternatives_of_a_project_and_trees_of_this_machine(cli: Cli, host: Host, with_setuptools: Links) -> None:
    """Found by review: an override took the place of one source alone, and what a tree wants had none."""
    anna = host.with_login("anna:CanaryOfAnna").removeprefix("git+")
    rows = ", ".join(
        '{ git = "%s/one.git", marker = "python_version %s \'3\'" }' % (anna, sign) for sign in ("<", ">=")
    )
    head = '[project]\nname = "p"\nversion = "1"\nrequires-python = ">=3.9"\n'
    uv = "[tool.uv]\nno-index = true\nfind-links = ['%s']\n" % with_setuptools.directory
    cli.write("pyproject.toml", head + 'dependencies = ["one"]\n[tool.uv.sources]\none = [%s]\n%s' % (rows, uv))
    cli.write("job.yml", "command: python -c 'import one; print(one.VALUE)'\nenvironment: pyproject.toml\n")
    result = cli("run", "job.yml", timeout=BUILDING)
    assert result.code == 0 and host.granted() == {"one"}, result
    assert not [line for line in host.said() if "CanaryOf" in line]
    cli.write("lib/pyproject.toml", PROJECT.format("lib") + 'dependencies = ["two @ git+%s/two.git"]\n' % anna)
    cli.write("requirements.txt", with_setuptools.requirements() + "./lib\n")
    cli.write("job.yml", "command: 'true'\nenvironment: requirements.txt\n")
    refused = cli("run", "job.yml")
    assert refused.code != 0 and "lib/pyproject.toml" in refused.err and "holds a password" in refused.err
    assert "Canary" not in refused.err


@pytest.mark.exhaustive(unless=["requirements"])
@pytest.mark.parametrize("where", ["requirements", "pip.conf"])
def test_what_pip_builds_in_isolation_is_told_no_password(
    cli: Cli, with_setuptools: Links, tmp_path: Path, where: str
) -> None:
    """Found by review: pip starts another pip with the addresses of indexes as words."""
    lines: list[str] = []
    logins: set[str | None] = set()

    class Index(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            logins.add(self.headers.get("Authorization"))
            lines.extend(command_lines())
            allowed = "Authorization" in self.headers
            self.send_response(404 if allowed else 401)
            self.send_header("WWW-Authenticate", 'Basic realm="x"')
            self.send_header("Content-Length", "0")
            self.end_headers()

        def log_message(self, *_: object) -> None:
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Index)
    Thread(target=server.serve_forever, daemon=True).start()
    try:
        source = tmp_path / "pkg"
        source.mkdir()
        (source / "pyproject.toml").write_text(PROJECT.format("pkg"))
        (source / "pkg.py").write_text("")
        subprocess.run(["tar", "czf", str(tmp_path / "pkg-1.0.tar.gz"), "-C", str(tmp_path), "pkg"], check=True)
        index = "http://bob:%%s@127.0.0.1:%d/simple" % server.server_port
        listed = "--find-links %s\n%s\n" % (with_setuptools.directory, tmp_path / "pkg-1.0.tar.gz")
        if where == "requirements":
            listed = "--index-url %s\n%s" % (index % "${OF_THE_INDEX}", listed)
        else:
            conf = cli.write("pip.conf", "[global]\nindex-url = %s\n" % (index % "CanaryOfTheIndex"))
            cli.environ["PIP_CONFIG_FILE"] = conf
        cli.write("requirements.txt", listed)
        cli.write("job.yml", "command: ls $PIP_FIND_LINKS\nstage:\n  pip: requirements.txt\n")
        result = cli("run", "job.yml", timeout=BUILDING, PIP_RETRIES="0", OF_THE_INDEX="CanaryOfTheIndex")
    finally:
        server.shutdown()
        server.server_close()
    assert "pkg-1.0-py3-none-any.whl" in result.out, result
    assert "Basic " + base64.b64encode(b"bob:CanaryOfTheIndex").decode() in logins
    assert any("pip" in line and "/simple" in line for line in lines)
    assert not [each for each in lines if "CanaryOf" in each]
