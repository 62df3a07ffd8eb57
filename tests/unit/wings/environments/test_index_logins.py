"""Passwords of package indexes, and the words that pip and uv are started with."""

from __future__ import annotations

import os
import sys
from collections.abc import Mapping
from pathlib import Path

import pytest

from worldsize.errors import BuildError, UsageError
from worldsize.wings.environments.pip.git_logins import GitLogins, refuse_passwords
from worldsize.wings.environments.pip.index_logins import IndexLogins
from worldsize.wings.environments.pip.uv_words import split_short_options, without_index_logins
from worldsize.wings.environments.pip.wheels import _read_configuration

URL = "http://anna:pw@host/simple"
BARE = "http://host/simple"


@pytest.mark.parametrize(
    "line", ["-i {}", "-i{}", "--index-url={}", "--index-u {}", "--pre --extra-index-url {}", "-f{}"]
)
def test_a_line_of_options(tmp_path: Path, line: str) -> None:
    logins = IndexLogins()
    assert logins.strip_line(line.format(URL)) == line.format(BARE)
    variables = logins.environ({}, str(tmp_path), "")
    assert Path(variables["NETRC"]).read_text().startswith('machine host login "anna" password "pw"\n')


@pytest.mark.parametrize("line", ["pkg @ " + URL, "-e git+https://anna:pw@host/x", "# -i " + URL])
def test_other_lines_are_left_alone(line: str) -> None:
    assert IndexLogins().strip_line(line) == line


def environ_of(directory: Path, environ: Mapping[str, str], *lines: str) -> dict[str, str]:
    return IndexLogins().environ(environ, str(directory), "\n".join(lines))


def test_what_pips_own_files_say(tmp_path: Path) -> None:
    said = [
        ":env:.index-url='http://x:y@other'",
        "global.timeout='60'",
        "wheel.index-url='%s'" % URL,
        "global.index-url='http://a:b@elsewhere'",
        "global.find-links='\\nhttp://c:d@third/1\\nhttp://third/2'",
        "global.extra-index-url='http://plain/simple'",
        "install.index-url='http://e:f@never'",
        "global.index-url=what no pip prints",
    ]
    found = environ_of(tmp_path, {}, *said)
    assert found["PIP_INDEX_URL"] == BARE and found["PIP_FIND_LINKS"].split() == ["http://third/1", "http://third/2"]
    assert set(found) == {"PIP_INDEX_URL", "PIP_FIND_LINKS", "NETRC"}
    found = environ_of(tmp_path, {"PIP_INDEX_URL": "http://mine/"}, *said)
    assert found["PIP_INDEX_URL"] == "http://mine/"


def test_variables_hold_whatever_pip_prints(tmp_path: Path) -> None:
    """Found by review: of a pip that is told to be quiet, packages came from the public index."""
    environ = {"PIP_QUIET": "1", "PIP_EXTRA_INDEX_URL": "http://mine/"}
    assert environ_of(tmp_path, environ) == environ


def test_an_empty_variable_is_none(tmp_path: Path) -> None:
    """As pip has it: what its files say holds."""
    found = environ_of(tmp_path, {"PIP_INDEX_URL": ""}, "global.index-url='%s'" % URL)
    assert found["PIP_INDEX_URL"] == BARE and "NETRC" in found


@pytest.fixture
def old_pip(tmp_path: Path) -> list[str]:
    """A pip that does not print its settings."""
    program = tmp_path / "bin" / "pip"
    program.parent.mkdir()
    program.write_text("#!/bin/sh\nexit 1\n")
    program.chmod(0o755)
    return [str(program)]


@pytest.mark.parametrize("place", ["pip.conf", ".pip/pip.conf", ".config/pip/pip.conf", "named"])
def test_a_pip_that_does_not_tell_its_settings(tmp_path: Path, old_pip: list[str], place: str) -> None:
    environ = {"PATH": os.environ["PATH"], "HOME": str(tmp_path), "PIP_CONFIG_FILE": str(tmp_path / "named")}
    path = tmp_path / place
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("[global]\nindex-url = %s\n" % BARE)
    assert _read_configuration(old_pip, environ) == ""
    path.write_text("[global]\nindex-url = %s\n" % URL)
    with pytest.raises(UsageError, match="contains a login") as refused:
        _read_configuration(old_pip, environ)
    assert refused.value.where == str(path) and "pw" not in str(refused.value)


@pytest.mark.heavy
def test_a_pip_that_is_told_to_print_little(tmp_path: Path) -> None:
    """Found by review: the login of another of its files was not seen."""
    (tmp_path / "pip.conf").write_text("[global]\nindex-url = %s\nquiet = 1\nuser = true\n" % URL)
    environ = {"PATH": os.environ["PATH"], "HOME": str(tmp_path), "PIP_CONFIG_FILE": str(tmp_path / "pip.conf")}
    said = _read_configuration([sys.executable, "-m", "pip"], {**environ, "PIP_QUIET": "1", "PIP_USER": "1"})
    assert "global.index-url='%s'" % URL in said.splitlines()


@pytest.mark.parametrize("name", ["PIP_PYPI_URL", "PIP_Index_Url", "PIP_INDEX-URL", "PIP_extra_index_url"])
def test_variables_however_pip_lets_them_be_spelled(tmp_path: Path, name: str) -> None:
    """Found by review: pip takes more names than the usual ones, and repeats the address to the pip that it starts."""
    usual = "PIP_EXTRA_INDEX_URL" if "xtra" in name else "PIP_INDEX_URL"
    found = environ_of(tmp_path, {name: URL, "A": "1"}, "global.index-url='http://c:d@other/'")
    assert found[usual] == BARE and found["A"] == "1" and "pw" not in str(found)


def test_the_other_name_of_the_index_in_pips_own_files(tmp_path: Path) -> None:
    assert environ_of(tmp_path, {}, "global.pypi-url='%s'" % URL)["PIP_INDEX_URL"] == BARE


def test_a_proxy_in_a_variable_of_another_spelling(tmp_path: Path) -> None:
    found = environ_of(tmp_path, {"PIP_Proxy": "http://anna:pw@proxy:3128"})
    assert "PIP_Proxy" not in found and "pw" in found["HTTPS_PROXY"]


def test_a_password_with_an_at_in_it(tmp_path: Path) -> None:
    """Found by review: its end stayed in the address."""
    logins = IndexLogins()
    assert logins.strip_line("-i http://anna:hun@ter2@host/simple") == "-i http://host/simple"
    text = Path(logins.environ({}, str(tmp_path), "")["NETRC"]).read_text()
    assert text.startswith('machine host login "anna" password "hun@ter2"\n')


@pytest.mark.parametrize("other", ["http://host:8080/simple", "https://host/simple", "http://x:y@host:81/"])
def test_another_server_at_the_same_host(tmp_path: Path, other: str) -> None:
    """Found by review: netrc knows no ports, and the other server got the password."""
    for lines in ((URL, other), (other, URL)):
        logins = IndexLogins()
        with pytest.raises(UsageError):
            for line in lines:
                logins.strip_line("--extra-index-url " + line)
            logins.environ({}, str(tmp_path), "")
    with pytest.raises(UsageError):
        environ_of(tmp_path, {"PIP_INDEX_URL": URL}, "global.extra-index-url='%s'" % other)
    logins = IndexLogins()
    for line in (URL, "http://host:80/other", "http://elsewhere:81/"):
        logins.strip_line("--extra-index-url " + line)
    assert "NETRC" in logins.environ({}, str(tmp_path), "")


def test_a_proxy_with_a_password(tmp_path: Path) -> None:
    """Found by review: pip names it to the pip that it starts."""
    proxy = "http://anna:pw@proxy:3128"
    found = environ_of(tmp_path, {"PIP_PROXY": proxy})
    assert "PIP_PROXY" not in found and found["HTTPS_PROXY"] == found["http_proxy"] == proxy
    assert environ_of(tmp_path, {"PIP_PROXY": "http://proxy:3128"})["PIP_PROXY"] == "http://proxy:3128"
    for environ in ({}, {"PIP_PROXY": proxy}):
        with pytest.raises(UsageError, match="pip's configuration"):
            environ_of(tmp_path, environ, "global.proxy='%s'" % proxy)
    plain = {"PIP_PROXY": "http://proxy:3128"}
    assert environ_of(tmp_path, plain, "global.proxy='%s'" % proxy)["PIP_PROXY"] == "http://proxy:3128"


def test_options_of_uv_with_a_login_become_variables() -> None:
    def without_logins(words: list[str]) -> tuple[list[str], dict[str, str]]:
        return without_index_logins(list(split_short_options(words)))

    words = ["pip", "install", "--index-url", URL, "--find-links=" + URL, "-f", "/x", "--index", BARE, "-r", "req.txt"]
    kept, variables = without_logins(words)
    assert kept == ["pip", "install", "--index", BARE, "-r", "req.txt"]
    assert variables == {"UV_INDEX_URL": URL, "UV_FIND_LINKS": URL + ",/x"}
    assert without_logins(["pip", "install", "-i" + URL]) == (["pip", "install"], {"UV_INDEX_URL": URL})
    token = "http://host/t/hunter2hunter2/simple"  # found by review
    assert without_logins(["pip", "install", "--index", token]) == (["pip", "install"], {"UV_INDEX": token})
    plain = ["pip", "install", "--index-url", BARE, "--find-links", "/x"]
    assert without_logins(plain) == (plain, {})


@pytest.mark.parametrize(
    "line",
    ["-r 'inc.txt'", '-r"inc.txt"', "-r file:///x/inc.txt", "-r inc.txt --pre", "--pre -r inc.txt", "--pre --req inc"],
)
def test_an_include_that_only_pip_would_follow(tmp_path: Path, line: str) -> None:
    """Found by review: the passwords of git in that file were in command lines."""
    listed = tmp_path / "requirements.txt"
    listed.write_text(line + "\n")
    with pytest.raises(UsageError, match="not supported"):
        GitLogins({}).strip_file(str(listed), str(tmp_path))


def test_a_refused_line_is_shown_without_its_password(tmp_path: Path) -> None:
    listed = tmp_path / "requirements.txt"
    listed.write_text("--index-url https://anna:hunter2@host/simple -r inc.txt\n")
    with pytest.raises(UsageError) as refused:
        GitLogins({}).strip_file(str(listed), str(tmp_path))
    assert "hunter2" not in str(refused.value)


@pytest.mark.parametrize(
    "line", ["-r inc.txt", "-c inc.txt", "--requirement=inc.txt", "-rinc.txt", "--pre", "--no-index", "a-r b"]
)
def test_lines_that_are_followed_or_include_nothing(tmp_path: Path, line: str) -> None:
    listed = tmp_path / "requirements.txt"
    listed.write_text(line + "\n")
    (tmp_path / "inc.txt").write_text("six\n")
    assert GitLogins({}).strip_file(str(listed), str(tmp_path)) == str(listed)


@pytest.mark.parametrize(
    ("start", "login"),
    [
        ("svn+https://", "anna:pw"),
        ("hg+https://", "anna:pw"),
        ("bzr+https://", "anna:pw"),
        ("hg+https://", "0123456789abcdef0123"),
        ("hg+static-http://", "anna:pw"),
        ("bzr+ssh://", "anna:p@w"),
        ("git+ssh://", "anna:pw"),
        ("GIT+FTP://", "anna:pw"),
        ("ssh://", "anna:pw"),
        ("git://", "anna:"),
        ("ftp://", "0123456789abcdef0123"),
    ],
)
def test_a_password_that_another_program_would_show(start: str, login: str) -> None:
    """Found by review: of git only https was looked at, of the others no more than that; and uv makes a path of git's
    of ssh:// without git+."""
    with pytest.raises(UsageError, match=start[:3]) as refused:
        GitLogins({}).strip_line("pkg @ %s%s@host/x" % (start, login))
    assert login not in str(refused.value)
    for line in ("pkg @ %shost/x" % start, "pkg @ %sanna@host/x" % start):
        assert GitLogins({}).strip_line(line) == line


@pytest.mark.parametrize(
    "said", ["git = 'ssh://a:pw@h/x'", "x @ ssh://a:pw@h/x.git", "x @ hg+https://a:pw@h/x", "x @ git+https://a:pw@h/x"]
)
def test_a_project_that_describes_passwords(tmp_path: Path, said: str) -> None:
    path = tmp_path / "pyproject.toml"
    path.write_text(said + "\n")
    with pytest.raises(BuildError) as refused:
        refuse_passwords(str(path))
    assert "a:pw" not in str(refused.value)
