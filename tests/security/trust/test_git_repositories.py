"""A repository of somebody else's in a directory above one's code, where everybody may make one, as in /tmp; and one's
own, to which others can write."""

from __future__ import annotations

import json
import os
import subprocess
from pathlib import Path

import pytest
from driver import Cli, wait_for
from security.people import Machine, Person

POINTER = """
import os, sys
scratch, secret = sys.argv[1:]
os.mkdir(scratch + "/theirs")
open(scratch + "/theirs/HEAD", "w").write("ref: " + secret)
open(scratch + "/.git", "w").write("gitdir: " + scratch + "/theirs")
"""
DIRECTORY = """
import os, subprocess, sys
scratch, secret = sys.argv[1:]
subprocess.run(["git", "init", "-q", scratch], check=True)
open(scratch + "/.git/HEAD", "w").write("ref: " + secret)
"""
LINK = """
import os, sys
scratch, secret = sys.argv[1:]
os.mkdir(scratch + "/theirs")
open(scratch + "/theirs/HEAD", "w").write("ref: " + secret)
os.symlink("theirs", scratch + "/.git")
"""


@pytest.mark.parametrize("script", [POINTER, DIRECTORY, LINK], ids=["pointer", "directory", "link"])
def test_nothing_is_taken_from_it(victim: Cli, attacker: Person, machine: Machine, uid: int, script: str) -> None:
    """Found by review: the first line of any file of the user's became the commit in the run's record, which
    `share: group` opens to others."""
    scratch = machine.directory(0o1777)
    secret = victim.write("token", "hunter2\n")
    attacker.python(script, scratch, secret)
    project = os.path.join(scratch, "project")
    os.mkdir(project)
    os.chown(project, uid, uid)
    done = victim("run", "-q", "--", "true", cwd=project)
    assert done.code == 0, done.err
    run = victim.json("list")[0]["id"]
    with open(victim.path(run, "record.json")) as file:
        record = file.read()
    assert json.loads(record)["git"] is None and "hunter2" not in record


def test_ones_own_is_read_in_it(victim: Cli, machine: Machine, uid: int) -> None:
    project = os.path.join(machine.directory(0o1777), "project")
    subprocess.run(["git", "init", "-q", "-b", "side", project], check=True)
    for directory, names, files in os.walk(project):
        for name in ("", *names, *files):
            os.chown(os.path.join(directory, name), uid, uid)
    assert victim("run", "-q", "--", "true", cwd=project).code == 0
    with open(victim.path(victim.json("list")[0]["id"], "record.json")) as file:
        assert json.load(file)["git"] == {"commit": None, "branch": "side"}


FILTER = """
import os, sys
config, mark = sys.argv[1:]
text = open(config).read()
if not os.access(config, os.W_OK):
    os.unlink(config)
open(config, "w").write(text + '[filter "x"]\\n\\tclean = "id -u > %s; cat"\\n' % mark)
"""


def repository(machine: Machine, uid: int, *words: str) -> str:
    """One with a change that is not committed, to a file that a filter is named for, as Git LFS has it."""
    project = machine.directory(0o755)
    Path(project, ".gitattributes").write_text("*.py filter=x\n")
    Path(project, "train.py").write_text("print(1)\n")
    own = ("-c", "user.name=a", "-c", "user.email=a")
    for each in (("init", "-q", *words), ("add", "."), (*own, "commit", "-q", "-m", "first")):
        subprocess.run(["git", "-C", project, *each], check=True)
    Path(project, "train.py").write_text("print(2)\n")
    for path in (project, *map(str, Path(project).rglob("*"))):
        os.chown(path, uid, uid)
    return project


def changed(victim: Cli, run: str) -> bool:
    """Whether git has written the change by now."""
    return os.path.exists(victim.path(run, "code.diff")) and "+print(2)\n" in victim.read(run, "code.diff")


def test_what_has_changed_in_ones_own(victim: Cli, machine: Machine, uid: int) -> None:
    assert victim("run", "-q", "--", "true", cwd=repository(machine, uid)).code == 0
    wait_for(lambda: changed(victim, victim.latest()))


HOOK = """
import os, sys
hook, mark = sys.argv[1:]
with open(hook, "w") as file:
    os.fchmod(file.fileno(), 0o755)
    file.write("#!/bin/sh\\nid -u > %s\\n" % mark)
"""


def test_hooks_that_others_can_write(victim: Cli, attacker: Person, machine: Machine, uid: int) -> None:
    """Found by review: git writes the index anew when a file's time has changed, and executes a hook then."""
    project, mark = repository(machine, uid), Path(machine.directory(0o777), "mark")
    hooks = os.path.join(project, ".git", "hooks")
    os.chmod(hooks, 0o777)
    attacker.python(HOOK, hooks + "/post-index-change", str(mark))
    os.utime(Path(project, ".gitattributes"), (1, 1))
    recorded(victim, project)
    assert not mark.exists()


@pytest.mark.exhaustive(unless=["root-511"])
@pytest.mark.parametrize("mode", [0o775, 0o777])
def test_ones_own_that_others_can_write_to(
    victim: Cli, attacker: Person, machine: Machine, uid: int, mode: int
) -> None:
    """Found by review: git executed what others had named as a filter in its configuration."""
    project, mark = repository(machine, uid), Path(machine.directory(0o777), "mark")
    git_dir = os.path.join(project, ".git")
    os.chown(git_dir, -1, attacker.uid)
    os.chmod(git_dir, mode)
    attacker.python(FILTER, git_dir + "/config", str(mark))
    unrecorded(victim, project, git_dir)
    assert not mark.exists()
    victim.ok("config", "trust", git_dir)
    recorded(victim, project)
    assert mark.read_text() == "%d\n" % uid


def test_ones_own_that_a_group_shares(victim: Cli, attacker: Person, machine: Machine, uid: int) -> None:
    project = repository(machine, uid, "--shared=group")
    for path in Path(project, ".git").rglob("*"):
        os.chown(path, -1, attacker.uid)
    git_dir = os.path.join(project, ".git")
    os.chown(git_dir, -1, attacker.uid)
    os.chmod(git_dir, 0o2775)
    unrecorded(victim, project, git_dir)
    victim.ok("config", "trust", git_dir)
    recorded(victim, project)


def test_ones_own_whose_settings_others_can_write(victim: Cli, attacker: Person, machine: Machine, uid: int) -> None:
    project, mark = repository(machine, uid), Path(machine.directory(0o777), "mark")
    config = os.path.join(project, ".git", "config")
    os.chmod(config, 0o666)
    attacker.python(FILTER, config, str(mark))
    unrecorded(victim, project, os.path.join(project, ".git"))
    assert not mark.exists()
    os.chmod(config, 0o644)
    recorded(victim, project)


BARE = """
import os, shutil, subprocess, sys
place, mark = sys.argv[1:]
subprocess.run(["git", "init", "-q", place + "/new"], check=True)
for name in ("HEAD", "objects", "refs", "config", "info"):
    shutil.move(place + "/new/.git/" + name, place)
open(place + "/info/attributes", "w").write("* filter=x\\n")
core = "[core]\\nrepositoryformatversion = 0\\nbare = false\\nworktree = .\\n"
open(place + "/config", "w").write(core + '[filter "x"]\\nclean = "id -u > %s; cat"\\n' % mark)
for words in (("add", "code/own.py"), ("-c", "user.name=b", "-c", "user.email=b", "commit", "-q", "-m", "x")):
    subprocess.run(["git", "--git-dir", place, "--work-tree", place, *words], check=True)
"""


def test_a_git_directory_under_another_name(victim: Cli, attacker: Person, machine: Machine, uid: int) -> None:
    """Found by review: git takes any directory on the way for a repository that looks like one, and its configuration
    was another than what was looked at."""
    project, mark = repository(machine, uid), Path(machine.directory(0o777), "mark")
    shared = os.path.join(project, "shared")
    code = os.path.join(shared, "code")
    os.makedirs(code)
    Path(code, "own.py").write_text("print(4)\n")
    for path in (shared, code, os.path.join(code, "own.py")):
        os.chown(path, uid, uid)
    os.chmod(shared, 0o1777)
    attacker.python(BARE, shared, str(mark))
    mark.unlink()
    Path(code, "own.py").touch()
    result = victim("run", "-q", "--", "true", cwd=code)
    assert result.code == 0, result
    with open(victim.path(victim.latest(), "record.json")) as file:
        assert json.load(file)["git"]["branch"]
    assert not mark.exists()


def test_settings_of_a_submodule(victim: Cli, attacker: Person, machine: Machine, uid: int) -> None:
    """Found by review: git looks for changes in each submodule, by its configuration."""
    module, project, mark = repository(machine, 0), repository(machine, uid), Path(machine.directory(0o777), "mark")
    words = ("-c", "protocol.file.allow=always", "-c", "safe.directory=*", "submodule", "--quiet", "add")
    subprocess.run(["git", "-C", project, *words, "file://" + module, "module"], check=True)
    Path(project, "module", "train.py").write_text("print(3)\n")
    for directory, names, files in os.walk(project):
        for name in (*names, *files):
            os.chown(os.path.join(directory, name), uid, uid, follow_symlinks=False)
    config = os.path.join(project, ".git", "modules", "module", "config")
    os.chmod(config, 0o666)
    attacker.python(FILTER, config, str(mark))
    recorded(victim, project)
    assert not mark.exists()


EXTERNAL = """
import os, shutil, subprocess, sys
module, git_dir, mark = sys.argv[1:]
if os.access(module, os.W_OK):
    os.unlink(module + "/.git")
    shutil.copytree(git_dir, module + "/.git")
    git_dir = module + "/.git"
with open(git_dir + "/config") as file:
    lines = [line for line in file if "worktree" not in line]
with open(git_dir + "/config", "w") as file:
    file.writelines([*lines, '[diff]\\n\\texternal = "id -u > %s; true"\\n' % mark])
"""


@pytest.mark.parametrize("where", ["settings", "directory"])
def test_a_submodules_own_differences(victim: Cli, attacker: Person, machine: Machine, uid: int, where: str) -> None:
    """Found by review: with `diff.submodule = diff`, git starts another git in a submodule with another commit, which
    is told nothing of ours and executes what that one's configuration names."""
    module, project, mark = repository(machine, 0), repository(machine, uid), Path(machine.directory(0o777), "mark")
    words = ("-c", "protocol.file.allow=always", "-c", "safe.directory=*", "-c", "user.name=a", "-c", "user.email=a")
    git = ("git", "-C", project, *words)
    subprocess.run([*git, "submodule", "--quiet", "add", "file://" + module, "module"], check=True)
    subprocess.run([*git, "commit", "-q", "-m", "with a module", "--", ".gitmodules", "module"], check=True)
    inner = os.path.join(project, "module")
    Path(inner, "train.py").write_text("print(5)\n")
    subprocess.run([*git, "-C", inner, "commit", "-q", "-m", "changed", "."], check=True)
    for directory, names, files in os.walk(project):
        for name in (*names, *files):
            os.chown(os.path.join(directory, name), uid, uid, follow_symlinks=False)
    git_dir = os.path.join(project, ".git", "modules", "module")
    if where == "settings":
        os.chmod(os.path.join(git_dir, "config"), 0o666)
    else:
        os.chmod(inner, 0o777)
    Path(victim.root, ".gitconfig").write_text("[diff]\n\tsubmodule = diff\n")
    attacker.python(EXTERNAL, inner, git_dir, str(mark))
    recorded(victim, project)
    assert not mark.exists()


def unrecorded(victim: Cli, project: str, why: str) -> None:
    """The file of changes is made before git starts: without it, git has not."""
    result = victim("run", "-q", "--", "true", cwd=project)
    assert result.code == 0 and "git: uncommitted changes are not recorded: %s: " % why in result.err, result
    assert "may write to it" in result.err, result
    assert not os.path.exists(victim.path(victim.latest(), "code.diff"))


def recorded(victim: Cli, project: str) -> None:
    result = victim("run", "-q", "--", "true", cwd=project)
    assert result.code == 0 and "uncommitted changes" not in result.err, result
    wait_for(lambda: changed(victim, victim.latest()))
