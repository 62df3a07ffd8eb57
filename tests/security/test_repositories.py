"""A repository of somebody else's in a directory above one's code, where everybody may make one, as in /tmp."""

from __future__ import annotations

import json
import os
import subprocess

import pytest
from driver import Cli
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
