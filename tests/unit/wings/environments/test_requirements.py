"""What requirements files and projects take from this machine."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from worldsize.errors import UsageError
from worldsize.jobspec.requirement import absolute_requirement, split_requirement
from worldsize.wings.environments.pip.requirements import (
    description_files,
    local_directories,
    local_sources,
    project_name,
    reachable_trees,
)


def project(directory: Path, text: str) -> str:
    directory.mkdir(parents=True, exist_ok=True)
    (directory / "pyproject.toml").write_text(text)
    return str(directory)


def test_the_source_trees_of_a_project(tmp_path: Path) -> None:
    said = (
        '[tool.uv.sources]\nlib = { path = "../lib" }\nweb = { git = "https://host/web" }\ntwo = [{ path = "two" }]\n'
    )
    assert local_sources(project(tmp_path / "app", said)) == [str(tmp_path / "app" / "two"), str(tmp_path / "lib")]
    lock = '[[package]]\nname = "lib"\nsource = { editable = "../lib" }\n'
    (tmp_path / "app" / "uv.lock").write_text(lock)
    assert local_sources(str(tmp_path / "app")) == [str(tmp_path / "lib")]


def test_those_of_lines(tmp_path: Path) -> None:
    lib = project(tmp_path / "lib", '[project]\nname = "lib"\n')
    assert local_directories(["numpy", "lib @ file://%s" % lib, lib + "[extra] ; python_version > '3'"]) == [lib]
    assert project_name(lib) == "lib"


def test_the_trees_that_trees_take_packages_from(tmp_path: Path) -> None:
    """Found by review: only those that a job names were looked at."""
    a, b, c, d, e = (str(tmp_path / name) for name in ("a", "b", "c c", "d", "e"))
    project(tmp_path / "a", "[tool.uv.sources]\nb = { path = '../b' }\ngone = { path = '../gone' }\n")
    project(tmp_path / "b", "[project]\ndependencies = ['c @ file://%s ; x']\n" % c.replace(" ", "%20"))
    project(tmp_path / "c c", "[build-system]\nrequires = ['a @ file:///${PROJECT_ROOT}/../a']\n")
    (tmp_path / "c c" / "setup.cfg").write_text("[options]\ninstall_requires =\n  d @ file://localhost%s#egg=d\n" % d)
    (tmp_path / "d").mkdir()
    (tmp_path / "d" / "setup.py").write_text("setup(install_requires=['e @ file:%s'])" % e)
    (tmp_path / "e").mkdir()
    assert reachable_trees([a]) == [a, b, c, d, e] and reachable_trees([e, str(tmp_path / "gone")]) == [e]


def test_what_describes_a_tree(tmp_path: Path) -> None:
    said = (
        "[tool.setuptools.dynamic]\ndependencies = { file = ['req.txt', 'gone.txt'] }\n"
        "optional-dependencies.x = { file = 'x.txt' }\n"
        "[tool.hatch.metadata.hooks.requirements_txt]\nfiles = ['h.txt']\n"
    )
    tree = project(tmp_path / "a", said)
    for name in ("req.txt", "x.txt", "h.txt", "setup.cfg", "other.txt"):
        (tmp_path / "a" / name).write_text("")
    names = [path.removeprefix(tree + "/") for path in description_files(tree)]
    assert names == ["pyproject.toml", "setup.cfg", "req.txt", "x.txt", "h.txt"]
    (tmp_path / "a" / "setup.cfg").write_text("[options]\ninstall_requires = file: deep/c.in, gone.txt\n")
    (tmp_path / "a" / "setup.py").write_text("setup(install_requires=open('other.txt'))")
    (tmp_path / "a" / "deep").mkdir()
    (tmp_path / "a" / "deep" / "c.in").write_text("")
    assert {"deep/c.in", "other.txt", "setup.py"} < {path.removeprefix(tree + "/") for path in description_files(tree)}
    (tmp_path / "a" / "setup.cfg").write_text(
        "[metadata]\nlong_description = file: README\n"
        "[options]\ninstall_requires =\n    file: requirements,\n        deep/deps.lst\n"
        "[options.extras_require]\nx = file: of x\n"
    )
    (tmp_path / "a" / "setup.py").write_text("open(os.path.join(here, 'deep', 'base.txt'))")
    for name in ("README", "requirements", "deep/deps.lst", "of x", "deep/base.txt"):
        (tmp_path / "a" / name).write_text("")
    found = {path.removeprefix(tree + "/") for path in description_files(tree)}  # found by review
    assert {"requirements", "deep/deps.lst", "of x", "deep/base.txt"} < found and "README" not in found
    assert description_files(project(tmp_path / "b", "[tool.setuptools]\ndynamic = 3\n")) == [
        str(tmp_path / "b/pyproject.toml")
    ]


@pytest.mark.parametrize(
    "line",
    [
        "pkg@file://%s",
        "pkg  @  file://%s",
        "pkg[x] @ file://localhost%s",
        "pkg @ FILE:%s#egg=pkg ; python_version > '3'",
        "pkg@%s[x]",
        "pkg @ file://${WHERE}/a",
        "${WHERE}/a",
        "%s",
    ],
)
def test_trees_however_they_are_named(tmp_path: Path, line: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Found by review: only `pkg @ file:///x` was taken for one, and above the others nobody looked."""
    monkeypatch.setenv("WHERE", str(tmp_path))
    tree = project(tmp_path / "a", "[project]\nname = 'b'\n")
    assert local_directories([line % tree if "%s" in line else line]) == [tree]
    other = project(tmp_path / "o", "[project]\ndependencies = ['pkg@file://${WHERE}/a']\n")
    assert reachable_trees([other]) == [other, tree]


def test_an_address_that_is_no_path() -> None:
    with pytest.raises(UsageError, match="not supported here"):
        local_directories(["pkg @ file:a/b"])
    assert local_directories(["numpy", "pkg @ https://h/x", "git+https://h/x", "-f file:///x"]) == []


@pytest.mark.parametrize(
    "line",
    ["pkg @ ${GONE}/x", "${GONE}/x", "${PROJECT_ROOT}/x", "pkg @ a/b", "a/b", "/a#egg=b", "/a;python_version>'3'"],
)
def test_a_path_that_cannot_be_followed(line: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Found by review: uv and pip took these for source trees, and nobody had looked at them."""
    monkeypatch.setenv("PROJECT_ROOT", "/elsewhere")
    with pytest.raises(UsageError, match=r"not supported here|pip and uv end at different places"):
        local_directories([line])


@pytest.mark.parametrize(
    ("line", "absolute"),
    [
        ("foo @ ../x", "foo @ /x"), ("foo[a]@../x ; marker", "foo[a]@/x ; marker"), ("vendor/x", "/base/vendor/x"),
        ("foo @ x", "foo @ /base/x"), ("-e ../x", "-e /x"), ("-e../x", "-e/x"), ("--edit=x", "--edit=/base/x"),
        (".x", "/base/.x"), ("x/y[a] --hash=b:c", "/base/x/y[a] --hash=b:c"), ("x.whl", "/base/x.whl"),
        ("-c ../x.txt", "-c /x.txt"), ("-f x", "-f /base/x"), ("foo  [a]  @  ../x  ;  m", "foo  [a]  @  /x  ;  m"),
    ],
)  # fmt: skip
def test_a_path_is_made_absolute(line: str, absolute: str) -> None:
    assert absolute_requirement(line, "/base") == absolute


@pytest.mark.parametrize(
    "line",
    [
        "foo", "foo==1.0+cpu", "foo [a,b] >=1, <2 ; python_version > '3/4'", "foo (>=1)", "foo>=1 --hash=sha256:ab/cd",
        "foo @ https://h/x", "foo@git+ssh://git@h/x@main", "https://h/x.whl", "file:///x", "--extra-index-url https://h/x",
        "--no-binary :all:", "foo bar", "$PREFIX/x", "foo @ ${HERE}/x", "-r https://h/x", "foo # a/b",
        "foo  [a]  (>=1)  ;  m / n", "foo  >=1  --hash=sha256:ab/cd", "foo  [a]  --hash=sha256:ab/cd", "foo  # a/b",
    ],
)  # fmt: skip
def test_what_is_no_path_stays(line: str) -> None:
    assert absolute_requirement(line, "/base") == line


@pytest.mark.parametrize(
    "line",
    [
        *("a" + " " * 300_000 + "x", "a [b" + " " * 300_000 + "x", "a[b]" + " " * 300_000 + "x", "[" * 300_000),
        *("a >=1" + " " * 300_000 + "x", "a (>=1)" + " " * 300_000 + "x", "a (" * 100_000, "a" + " " * 300_000 + "@"),
        *("./a" + " " * 300_000 + "x", "a @ ../b" + " " * 300_000 + "x", "-e" + " " * 300_000, "./a" + "[" * 300_000),
    ],
)
def test_a_line_of_many_blanks(line: str) -> None:
    """Found by review: its blanks were shared out in all ways, for ever. The time limit of every test is the bound."""
    parts = split_requirement(line)
    assert "".join(parts) == line.strip()
    assert len(absolute_requirement(line, "/base")) <= len(line) + len("/base/")


def test_the_members_of_a_workspace(tmp_path: Path) -> None:
    """Found by review: only `path` was followed, and nobody looked at members that lay elsewhere."""
    root = project(
        tmp_path / "root",
        "[tool.uv.workspace]\nmembers = ['packages/*', '../apart']\n[tool.uv.sources]\na = { workspace = true }\n",
    )
    a, b = (project(tmp_path / "root" / "packages" / name, "[project]\nname = '%s'\n" % name) for name in "ab")
    apart = project(tmp_path / "apart", "[project]\nname = 'c'\n")
    (tmp_path / "root" / "packages" / "README").write_text("no tree")
    assert sorted(reachable_trees([a])) == sorted([root, a, b, apart])
    assert local_sources(root) == sorted([a, b, apart])


@pytest.mark.skipif(os.geteuid() != 0, reason="only root gives files away")
def test_a_workspace_of_another_user_is_not_followed(tmp_path: Path) -> None:
    root = project(tmp_path / "root", "[tool.uv.workspace]\nmembers = ['packages/*']\n")
    a = project(
        tmp_path / "root" / "packages" / "a",
        "[project]\nname = 'a'\n[tool.uv.sources]\nb = { workspace = true }\n",
    )
    b = project(tmp_path / "root" / "packages" / "b", "[project]\nname = 'b'\n")
    assert sorted(reachable_trees([a])) == sorted([root, a, b])
    os.chown(os.path.join(root, "pyproject.toml"), 65534, 65534)
    assert reachable_trees([a]) == [a]


ODD = "[project]\nname = 3\n[tool.uv.sources]\na = 1\nb = [2, {}]\nc = { path = 4 }"


@pytest.mark.parametrize(
    "said", ["", "no toml", "tool = 3", "project = 'x'", "[tool]\nuv = []", "[tool.uv]\nsources = 'x'", ODD]
)
def test_projects_that_hold_something_else_are_left_to_uv(tmp_path: Path, said: str) -> None:
    odd = project(tmp_path, said)
    assert local_sources(odd) == [] and project_name(odd) is None
