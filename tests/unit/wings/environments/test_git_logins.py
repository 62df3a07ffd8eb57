"""Users and passwords of git's addresses: what is handed on has none, and git finds them where they belong."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Callable, Mapping
from pathlib import Path

import pytest

from worldsize.errors import BuildError, NotFound, UsageError
from worldsize.wings.environments.pip.git_logins import GitLogins, has_login, refuse_passwords_of_trees
from worldsize.wings.environments.pip.requirements import git_requirements
from worldsize.wings.environments.pip.uv import Uv
from worldsize.wings.environments.workspace.builder import Build


@pytest.mark.parametrize(
    ("line", "stripped", "asked", "login"),
    [
        ("a @ git+https://u:p@host/o/a.git", "a @ git+https://host/o/a.git", "https://host/o/a.git", ("u", "p")),
        ("a[x] @ GIT+HTTPS://u:p@h/a@v1#egg=a ; m", "a[x] @ GIT+HTTPS://h/a@v1#egg=a ; m", "https://h/a", ("u", "p")),
        ("git+http://u%40x:p%2F%3A%25@h:80/a", "git+http://h:80/a", "http://h:80/a", ("u@x", "p/:%")),
        ("-e git+https://u:p:q@h/a.git@x/y", "-e git+https://h/a.git@x/y", "https://h/a.git", ("u", "p:q")),
        ("git+https://token:@h/a", "git+https://h/a", "https://h/a", ("token", "")),
        ("git+https://u:${WORD}@h/a", "git+https://h/a", "https://h/a", ("u", "of-a-variable")),
        ("git+${ALL}/a", "git+https://h/a", "https://h/a", ("u", "p")),
        ("${REPO}", "git+https://h/a", "https://h/a", ("u", "p")),
        ("one @ ${REPO}", "one @ git+https://h/a", "https://h/a", ("u", "p")),
        ("git+https://[::1]:8/a", "git+https://[::1]:8/a", "https://[::1]:8/a", None),
        (
            "a @ https://u:p@h/o/a.git#subdirectory=x",
            "a @ https://h/o/a.git#subdirectory=x",
            "https://h/o/a.git",
            ("u", "p"),
        ),
        ("http://u:${WORD}@h/a.GIT ; m", "http://h/a.GIT ; m", "http://h/a.GIT", ("u", "of-a-variable")),
        ("git+https://u:p\xa0q@h/a", "git+https://h/a", "https://h/a", ("u", "p\xa0q")),
        ("a @ https://u:p@h/a.git/", "a @ https://h/a.git/", "https://h/a.git/", ("u", "p")),
        ("https://u:p@h/a.git/x/..", "https://h/a.git/x/..", "https://h/a.git/x/..", ("u", "p")),
        ("https://u:p@h/a;x.git", "https://h/a;x.git", "https://h/a;x.git", ("u", "p")),
        ("https://u:p@h/a.GIT/.?a=b", "https://h/a.GIT/.?a=b", "https://h/a.GIT/.", ("u", "p")),
        ("https://u:p@h\\a.git\\", "https://h\\a.git\\", "https://h", ("u", "p")),
        ("a @ https://u:p@h/a.whl", "a @ https://u:p@h/a.whl", "https://h/a.whl", None),
        ("git+https://u:p@[::1]:8/a", "git+https://[::1]:8/a", "https://[::1]:8/a", ("u", "p")),
        ("git+https://u:***@h/a", "git+https://h/a", "https://h/a", None),
        ("git+https://***@h/a", "git+https://h/a", "https://h/a", None),
        ("git+https://u:${GONE}@h/a", "git+https://h/a", "https://h/a", ("u", "${GONE}")),
        ("git+https://h/a@v1#x@y", "git+https://h/a@v1#x@y", "https://h/a", None),
        ("git+https://h/${WORD}", "git+https://h/${WORD}", "https://h/a", None),
        ("git+ssh://git@h/a", "git+ssh://git@h/a", "https://h/a", None),
        ("x==1  # git+https://h", "x==1  # git+https://h", "https://h/a", None),
        ("--index-url https://u:p@h/simple", "--index-url https://u:p@h/simple", "https://h/simple", None),
    ],
)
def test_a_line(line: str, stripped: str, asked: str, login: tuple[str, str] | None, tmp_path: Path) -> None:
    logins = GitLogins({"WORD": "of-a-variable", "ALL": "https://u:p@h", "REPO": "git+https://u:p@h/a"})
    assert logins.strip_line(line) == stripped
    assert filled(asked, logins, tmp_path) == login


def filled(address: str, logins: GitLogins, home: Path, settings: str = "") -> tuple[str, str] | None:
    """What git itself finds for an address, with a user's settings."""
    (home / ".gitconfig").write_text(settings)
    environ = {"PATH": os.environ["PATH"], "HOME": str(home), "GIT_TERMINAL_PROMPT": "0", **logins.variables()}
    done = subprocess.run(
        ["git", "credential", "fill"], input="url=%s\n\n" % address, env=environ, cwd=home, text=True,
        capture_output=True, start_new_session=True,
    )  # fmt: skip
    said = dict(line.split("=", 1) for line in done.stdout.splitlines() if "=" in line)
    return (said["username"], said["password"]) if done.returncode == 0 else None


def logins_of(*lines: str, environ: Mapping[str, str] | None = None) -> GitLogins:
    logins = GitLogins(environ or {})
    for line in lines:
        logins.strip_line(line)
    return logins


OTHERS = '[credential]\n\thelper = "!f() { echo username=own; echo password=own; }; f"\n'


def test_each_repository_of_a_host_has_its_own(tmp_path: Path) -> None:
    logins = logins_of("git+https://a:1@h/o/a.git", "git+https://b:2@h/o/b", "git+https://c:3@h:444/o/c")
    assert filled("https://h/o/a.git", logins, tmp_path, OTHERS) == ("a", "1")
    assert filled("https://h/o/b", logins, tmp_path, OTHERS) == ("b", "2")
    assert filled("https://h:444/o/c", logins, tmp_path) == ("c", "3")
    assert filled("https://h/o/other", logins, tmp_path) is None
    assert filled("http://h/o/a.git", logins, tmp_path) is None
    assert filled("https://h/o/a.gitt", logins, tmp_path) is None
    assert filled("https://elsewhere/o/a.git", logins, tmp_path) is None


def test_another_repository_of_the_host_may_need_it_and_the_users_own_helper_is_asked_first(tmp_path: Path) -> None:
    logins = logins_of("git+https://a:1@h/o/a.git", "git+https://a:1@h/o/b.git")
    assert filled("https://h/o/submodule.git", logins, tmp_path) == ("a", "1")
    assert filled("https://h/o/submodule.git", logins, tmp_path, OTHERS) == ("own", "own")
    assert filled("https://elsewhere/o/a.git", logins, tmp_path, OTHERS) == ("own", "own")


def test_a_user_without_a_password_is_a_hint_for_the_users_own_helper(tmp_path: Path) -> None:
    logins = logins_of("git+https://anna@h/o/a.git")
    helper = '[credential]\n\thelper = "!f() { grep -q username=anna && echo password=hers; }; f"\n'
    assert filled("https://h/o/a.git", logins, tmp_path, helper) == ("anna", "hers")
    assert filled("https://h/o/a.git", logins, tmp_path) is None


def test_the_users_own_variables_of_git_hold(tmp_path: Path) -> None:
    own = {"GIT_CONFIG_COUNT": "1", "GIT_CONFIG_KEY_0": "user.name", "GIT_CONFIG_VALUE_0": "anna"}
    logins = logins_of("git+https://a:1@h/a", environ=own)
    environ = {"PATH": os.environ["PATH"], "HOME": str(tmp_path), **own, **logins.variables()}
    asked = ["git", "config", "user.name"]
    assert subprocess.run(asked, env=environ, capture_output=True, text=True, cwd=tmp_path).stdout == "anna\n"
    assert environ["GIT_CONFIG_COUNT"] == "4" and logins_of("git+https://h/a").variables() == {}


def test_files_that_include_others(tmp_path: Path) -> None:
    given = tmp_path / "given"
    given.mkdir()
    (tmp_path / "deep").mkdir()
    third_says = "./wheel.whl\n--find-links wheels\n-f ${HERE}/x\n-f https://h/x\ngit+https://a:1@h/a  # ours\n"
    (tmp_path / "deep" / "third.txt").write_text(third_says)
    (tmp_path / "deep" / "second.txt").write_text("-r ${HERE}/third.txt\n-c plain.txt\nx==1\n")
    (tmp_path / "deep" / "plain.txt").write_text("y==1\n")
    first = tmp_path / "first.txt"
    first.write_text("-r deep/second.txt\n-r deep/plain.txt\n")
    logins = GitLogins({"HERE": str(tmp_path / "deep")})
    copy = Path(logins.strip_file(str(first), str(given)))
    second, plain = copy.read_text().splitlines()
    assert plain == "-r %s" % (tmp_path / "deep/plain.txt")
    third, constraint, wanted = Path(second.removeprefix("-r ")).read_text().splitlines()
    assert (constraint, wanted) == ("-c %s" % (tmp_path / "deep/plain.txt"), "x==1")
    assert Path(third.removeprefix("-r ")).read_text().splitlines() == [
        "%s" % (tmp_path / "deep/wheel.whl"),
        "--find-links %s" % (tmp_path / "deep/wheels"),
        "-f %s" % (tmp_path / "deep/x"),
        "-f https://h/x",
        "git+https://h/a",
    ]
    assert {path.stat().st_mode & 0o777 for path in given.iterdir()} == {0o600}
    assert logins.strip_file(str(tmp_path / "deep/plain.txt"), str(given)) == str(tmp_path / "deep/plain.txt")
    with pytest.raises(NotFound, match=r"gone\.txt"):
        logins.strip_file(str(tmp_path / "gone.txt"), str(given))


def test_files_that_include_each_other(tmp_path: Path) -> None:
    (tmp_path / "a.txt").write_text("-r a.txt\ngit+https://a:1@h/a\n")
    with pytest.raises(UsageError, match="loop"):
        GitLogins({}).strip_file(str(tmp_path / "a.txt"), str(tmp_path))


def test_a_relative_path_in_a_file_that_is_included(tmp_path: Path) -> None:
    """uv would follow it from where it is started."""
    (tmp_path / "given").mkdir()
    (tmp_path / "plain.txt").write_text("six\n-r more.txt\n")
    (tmp_path / "more.txt").write_text("./tree\n")
    copy = Path(GitLogins({}).strip_file(str(tmp_path / "plain.txt"), str(tmp_path / "given")))
    six, more = copy.read_text().splitlines()
    assert six == "six" and Path(more.removeprefix("-r ")).read_text() == "%s\n" % (tmp_path / "tree")


@pytest.mark.parametrize("word", ["%0a", "%00", "%0d"])
def test_no_login_says_more_than_a_user_and_a_password(word: str) -> None:
    with pytest.raises(UsageError, match=r"control character") as refused:
        logins_of("git+https://a:secret%s@h/a" % word)
    assert "secret" not in str(refused.value)


ADDRESS = "dep @ git+https://anna:hunter2@h/dep"


@pytest.mark.parametrize(
    ("name", "said"),
    [
        ("setup.cfg", "[options]\ninstall_requires =\n  %s\n" % ADDRESS),
        ("setup.py", "setup(install_requires=['%s'])" % ADDRESS),
        ("req.txt", ADDRESS),
        ("req.txt", "dep @ git+https://anna@corp.com:hunter2@h/dep"),
        ("req.txt", "dep @ git+https://anna:it'shunter2@h/dep"),
        ("setup.py", "setup(install_requires=['dep @ git+https://ghp_hunter2hunter2hunter@h/dep'])"),
        ("setup.py", "setup(install_requires=['dep @ https://anna:hunter2@h/dep.git'])"),
        ("req.txt", "dep @ https://anna:hunter2@h/dep.git#subdirectory=x"),
        ("req.txt", "dep @ https://anna:hunter2@h/x;dep.git/"),
        ("req.txt", "dep @ git+https://hunter2:@h/x"),
        ("setup.cfg", "[options]\ninstall_requires = dep @ https://hunter2:@h/x.git\n"),
    ],
)
@pytest.mark.parametrize("deep", [False, True])
def test_trees_whose_other_files_hold_passwords(tmp_path: Path, name: str, said: str, deep: bool) -> None:
    """Found by review: only pyproject.toml was looked at, and only of trees that a job names."""
    tree, first = tmp_path / "tree", tmp_path / "first"
    for each, text in ((tree, "[tool.setuptools.dynamic]\ndependencies = { file = 'req.txt' }\n"),
                       (first, "[tool.uv.sources]\nx = { path = '../tree' }\n")):  # fmt: skip
        each.mkdir()
        (each / "pyproject.toml").write_text(text)
    refuse_passwords_of_trees([str(first)])
    (tree / name).write_text(said)
    with pytest.raises(BuildError, match="holds a password") as refused:
        refuse_passwords_of_trees([str(first if deep else tree)])
    assert refused.value.where == str(tree / name) and "hunter2" not in str(refused.value)


@pytest.mark.parametrize(
    "said",
    [
        'dep = { "git" = "https://anna:hunter2@h/dep" }',
        'dep = { git = """https://anna:hunter2@h/dep""" }',
        'dep = { git = "https:\\u002f/anna:hunter2@h/dep" }',
        "dep = [{ 'git' = 'https://anna:hunter2@h/dep', rev = 'x' }]",
        'dep = { git = "https://anna@corp.com:hunter2@h/dep" }',
        'dep = { git = "https://anna:it\'shunter2@h/dep" }',
        "dep = { git = 'ssh://anna:hunter2\"@h/dep' }",
    ],
)
def test_passwords_however_toml_spells_them(tmp_path: Path, said: str) -> None:
    """Found by review: only the usual spelling of a source was seen."""
    (tmp_path / "pyproject.toml").write_text("[tool.uv.sources]\n%s\n" % said)
    with pytest.raises(BuildError, match="holds a password") as refused:
        refuse_passwords_of_trees([str(tmp_path)])
    assert "hunter2" not in str(refused.value)


def test_members_of_a_workspace_and_its_root(tmp_path: Path) -> None:
    """Found by review: in neither was a password refused."""
    root, member, other = tmp_path, tmp_path / "packages" / "a", tmp_path / "packages" / "b"
    for each in (member, other):
        each.mkdir(parents=True)
        (each / "pyproject.toml").write_text("[project]\n")
    head = "[tool.uv.workspace]\nmembers = ['packages/*']\n"
    (root / "pyproject.toml").write_text(head)
    refuse_passwords_of_trees([str(member)])
    for path, said in (
        (other / "pyproject.toml", "[project]\ndependencies = ['%s']\n" % ADDRESS),
        (root / "pyproject.toml", head + "[tool.uv.sources]\ndep = { git = 'https://anna:hunter2@h/dep' }\n"),
    ):
        before = path.read_text()
        path.write_text(said)
        with pytest.raises(BuildError, match="holds a password") as refused:
            refuse_passwords_of_trees([str(member)])
        assert refused.value.where == str(path)
        path.write_text(before)


def test_words_and_files_of_options(tmp_path: Path) -> None:
    """Found by review: what a build step says with `options` reached git as it was."""
    uv, _ = started(tmp_path)
    inputs = tmp_path / "worldsize"
    (tmp_path / "over.txt").write_text(ADDRESS + "\n")
    words = [
        "pip",
        "install",
        "--overrides",
        str(tmp_path / "over.txt"),
        "-c=%s" % (tmp_path / "over.txt"),
        ADDRESS,
        "-v",
    ]
    given = uv._without_git_logins(words, [], "/")
    assert given[:3] == words[:3] and given[5:] == ["dep @ git+https://h/dep", "-v"]
    for path in (given[3], given[4].partition("=")[2]):
        assert path.startswith(str(inputs)) and Path(path).read_text() == "dep @ git+https://h/dep\n"
    assert "hunter2" in uv._logins.variables().values()


@pytest.mark.parametrize("words", [("-qr", "LIST"), ("-Ur", "LIST"), ("-vrLIST",), ("-qr=LIST",), ("-r", "LIST")])
def test_lists_behind_short_options_together(tmp_path: Path, words: tuple[str, ...]) -> None:
    """Found by review: -qr FILE was taken for one unknown option."""
    uv, said = started(tmp_path)
    (tmp_path / "list").write_text(ADDRESS + "\n")
    uv("pip", "pip", "install", *(word.replace("LIST", str(tmp_path / "list")) for word in words))
    (copy,) = (word for word in said() if word.startswith(str(tmp_path / "worldsize")))
    assert Path(copy).read_text() == "dep @ git+https://h/dep\n" and "hunter2" not in "".join(said())


def test_an_index_behind_short_options_together(tmp_path: Path) -> None:
    uv, said = started(tmp_path)
    uv("pip", "pip", "install", "-qi", "https://anna:hunter2@h/simple", "six")
    assert said()[:4] == ["pip", "install", "-q", "six"]


@pytest.mark.parametrize(
    "words",
    [
        ("dep @ https://anna:hunter2@h/dep.whl",),
        ("--trusted=https://anna:hunter2@h/",),
        ("-r", "SCRIPT"),
    ],
)
def test_a_login_that_a_command_line_would_show(tmp_path: Path, words: tuple[str, ...]) -> None:
    """Found by review: uv's own words had it, or git's, by a script that lists requirements in its comments."""
    uv, said = started(tmp_path)
    script = tmp_path / "script.py"
    script.write_text('# /// script\n# dependencies = ["%s"]\n# ///\n' % ADDRESS)
    with pytest.raises(BuildError) as refused:
        uv("pip", "pip", "install", *(word.replace("SCRIPT", str(script)) for word in words))
    assert "hunter2" not in str(refused.value) and not said()


@pytest.mark.parametrize(
    "option", ["-eTREE", "--group=TREE/pyproject.toml:x", "-rLIST", "-qr=LIST", "--overrides=LIST"]
)
def test_trees_that_options_name(tmp_path: Path, option: str) -> None:
    uv, said = started(tmp_path)
    tree, listed = tmp_path / "tree", tmp_path / "list"
    tree.mkdir()
    (tree / "pyproject.toml").write_text("[tool.setuptools.dynamic]\ndependencies = { file = 'req.txt' }\n")
    listed.write_text("%s\n" % tree)
    (tree / "req.txt").write_text(ADDRESS + "\n")
    with pytest.raises(BuildError, match="holds a password") as refused:
        uv("pip", "pip", "install", option.replace("LIST", str(listed)).replace("TREE", str(tree)))
    assert "hunter2" not in str(refused.value) and not said()
    (tree / "req.txt").write_text("six\n")
    uv("pip", "pip", "install", option.replace("LIST", str(listed)).replace("TREE", str(tree)))
    assert said()


def test_a_list_of_an_option_that_includes_another_by_a_variable(tmp_path: Path) -> None:
    uv, said = started(tmp_path)
    uv._logins = GitLogins({"PLACE": str(tmp_path)})
    (tmp_path / "list").write_text("-r ${PLACE}/more.txt\n")
    (tmp_path / "more.txt").write_text(ADDRESS + "\n")
    uv("pip", "pip", "install", "-r", str(tmp_path / "list"))
    assert "hunter2" not in Path(said()[3]).read_text() and Path(said()[3]) != tmp_path / "list"


def test_an_option_that_names_no_list(tmp_path: Path) -> None:
    """Found by review: a program that an option named was read as a list of requirements."""
    uv, said = started(tmp_path)
    (tmp_path / "tool").write_bytes(b"\x7fELF\r\x00\xff")
    uv("pip", "pip", "install", "--python", str(tmp_path / "tool"), "--config-setting=cc=%s" % (tmp_path / "tool"))
    assert len(said()) == 7


def test_lists_without_logins_are_given_to_uv(tmp_path: Path) -> None:
    uv, said = started(tmp_path)
    listed = tmp_path / "worldsize" / "inputs" / "list.txt"
    listed.write_text(ADDRESS + "\n")
    uv("pip", "pip", "install", "-r", str(listed))
    copy = said()[3]
    assert Path(copy).read_text() == "dep @ git+https://h/dep\n" and "hunter2" not in "".join(said())


def started(tmp_path: Path) -> tuple[Uv, Callable[[], list[str]]]:
    """uv, of which a program of its name notes the words, and these."""
    noted, program = tmp_path / "noted", tmp_path / "uv"
    program.write_text('#!/bin/sh\nprintf "%%s\\0" "$@" >%s\n' % noted)
    program.chmod(0o755)
    work = Build(str(tmp_path), lambda what: None)
    os.makedirs(work.inputs)
    uv = Uv(work, {"PATH": "%s:%s" % (tmp_path, os.environ["PATH"])})
    uv.program = str(program)
    return uv, lambda: noted.read_text().split("\0")[:-1] if noted.exists() else []


def test_what_a_project_wants_of_git(tmp_path: Path) -> None:
    path = tmp_path / "pyproject.toml"
    path.write_text(
        """\
[project]
dependencies = [
  "a[x] @ git+https://u:p@h/a ; python_version > '3'", "b>=1; sys_platform == 'linux'", "C.c[y]", "d", "e", "f",
  "g @ https://u:p@h/g.whl", "h @ https://u:p@h/h.git", "i@git+https://${USER}:p@h/i", "j @", "b >> 1", 5,
]
[tool.uv.sources]
b = { git = "https://u:p@h/b", tag = "v1", subdirectory = "in", marker = "extra == 'z' or extra == 'w'" }
c-c = [{ git = "https://h/c" }]
d = [{ git = "https://u:p@h/d", marker = "1" }, { index = "other", marker = "2" }]
e = { path = "e" }
"""
    )
    assert git_requirements(str(path)) == [
        "a[x] @ git+https://u:p@h/a ; python_version > '3'",
        "b @ git+https://u:p@h/b@v1#subdirectory=in ; (sys_platform == \"linux\") and (extra == 'z' or extra == 'w')",
        "C.c[y] @ git+https://h/c",
        "h @ https://u:p@h/h.git",
        "i@git+https://${USER}:p@h/i",
    ]
    assert git_requirements(str(tmp_path / "gone.toml")) == []
    assert [has_login(line) for line in git_requirements(str(path))] == [True, True, False, True, True]


def test_a_condition_that_is_nested_too_deep_is_left_to_uv(tmp_path: Path) -> None:
    """The oldest `packaging` that is allowed reads brackets by recursion without a bound."""
    path = tmp_path / "pyproject.toml"
    path.write_text('[project]\ndependencies = ["a; %s", "b @ git+https://u:p@h/b"]\n' % ("(" * 3000))
    assert git_requirements(str(path)) == ["b @ git+https://u:p@h/b"]


def test_what_is_taken_out_may_be_a_variable(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Of an address that is said once more without its login, which is known as its project says it."""
    monkeypatch.setenv("WORD", "hunter2")
    line = "a @ git+https://u:${WORD}@h/a"
    (tmp_path / "pyproject.toml").write_text("[project]\ndependencies = ['%s']\n" % line)
    refuse_passwords_of_trees([str(tmp_path)], [line])
    with pytest.raises(BuildError, match="holds a password"):
        refuse_passwords_of_trees([str(tmp_path)])
