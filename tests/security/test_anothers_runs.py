"""Runs of other users: they can be looked at, and nothing of what they say is done."""

from __future__ import annotations

import os
import shutil
from pathlib import Path

import pytest
from driver import Cli, wait_for
from security.people import Machine, Person

SLEEP = "import pathlib, time\nprint('up', flush=True)\nwhile not pathlib.Path('go').exists(): time.sleep(0.05)\n"


@pytest.fixture
def own(victim: Cli) -> str:
    """A running run of the victim's."""
    victim.write("sleep.py", SLEEP)
    run = victim.submit("--", "python", "sleep.py")
    wait_for(lambda: victim.begun(run) and "up" in victim.ok("logs", run, "--raw").out)
    return run


@pytest.fixture
def directory(victim: Cli, attacker: Person, own: str, machine: Machine) -> str:
    """A directory of the attacker's that says that it is the victim's running run."""
    path = os.path.join(machine.directory(0o755, attacker.uid), own)
    shutil.copytree(os.path.realpath(victim.path(own)), path, symlinks=True)
    for found in (path, *map(str, Path(path).rglob("*"))):
        os.chown(found, attacker.uid, attacker.uid, follow_symlinks=False)
        if not os.path.islink(found):
            os.chmod(found, 0o777)
    return path


def end(victim: Cli, run: str) -> None:
    """The victim's run has gone on undisturbed."""
    Path(victim.path(run, "code", "go")).touch()
    assert victim("wait", run).code == 0, victim.status(run)


@pytest.mark.parametrize("words", [("cancel", "{}"), ("cancel", "--now", "{}"), ("requeue", "{}")])
def test_it_is_not_ended(victim: Cli, own: str, directory: str, words: tuple[str, ...]) -> None:
    """Found by review: a directory may name any process and any run."""
    refused = victim(*(word.format(directory) for word in words))
    assert refused.code != 0 and "is for runs of your own, and this directory belongs to" in refused.err
    end(victim, own)


def test_nothing_of_it_is_executed(victim: Cli, attacker: Person, own: str, directory: str) -> None:
    """Found by review: the PATH of its plan, and its LD_PRELOAD, were those of `exec`."""
    tool = attacker.write("bin/nvidia-smi", "#!/bin/sh\necho evil\n")
    os.chmod(tool, 0o755)
    script = """
import json, sys
plan = json.load(open(sys.argv[1]))
text = json.dumps(plan)
open(sys.argv[1], "w").write(text.replace('"path": [', '"path": [%s, ' % json.dumps(sys.argv[2])))
"""
    attacker.python(script, directory + "/plan.json", os.path.dirname(tool))
    for verb in (("exec", directory, "--", "nvidia-smi"), ("shell", directory)):
        refused = victim(*verb)
        assert refused.code != 0 and "belongs to" in refused.err and "evil" not in refused.out
    end(victim, own)


def test_following_it_ends_nothing(victim: Cli, attacker: Person, own: str, directory: str) -> None:
    """Found by review: once its directory went away, what it had named was ended."""
    with victim.start("logs", "-f", directory) as process:
        assert process.stdout is not None and b"up" in process.stdout.readline()
        attacker.python("import os, sys; os.rename(sys.argv[1], sys.argv[1] + '-away')", directory)
        process.communicate(timeout=60)
    end(victim, own)


def test_looking_writes_nothing(victim: Cli, own: str, directory: str) -> None:
    """Found by review: root's look left a result that the run's owner could not read."""
    end(victim, own)
    before = set(Path(directory).rglob("*"))
    assert victim.status(directory)["state"] == "LOST"
    assert set(Path(directory).rglob("*")) == before


def test_it_is_not_run_again(victim: Cli, own: str, directory: str) -> None:
    """Found by review: the job and the code of somebody else's directory were executed, as a run of one's own."""
    end(victim, own)
    refused = victim("rerun", directory)
    assert refused.code != 0 and "is for runs of your own, and this directory belongs to" in refused.err
    assert len(victim.json("list")) == 1


def test_a_directory_that_another_put_in_the_place_of_a_removed_one(
    victim: Cli, attacker: Person, machine: Machine
) -> None:
    """Found by review: where several people's runs lie, the name of a run that was removed is free for everybody."""
    shared = machine.directory(0o1777)
    victim.environ["WORLDSIZE_TRUST_PROJECT"] = "1"
    victim.write("worldsize.toml", '[compute.local]\nruns_dir = "%s"\n' % shared)
    run = victim.run("-q", "--", "false", code=1)
    root = os.path.realpath(victim.path(run))
    aside = root + "-aside"
    os.rename(root, aside)
    attacker.python("import shutil, sys; shutil.copytree(*sys.argv[1:], symlinks=True)", readable(aside), root)
    for words in (("status", run), ("wait", run), ("logs", run), ("rerun", run), ("rerun",), ("diff", run, run)):
        refused = victim(*words)
        assert refused.code != 0 and "somebody else has made one of that name" in refused.err, (words, refused)
    (row,) = victim.json("list")
    assert (row["id"], row["state"]) == (run, "LOST")


def readable(root: str) -> str:
    for path in (root, *map(str, Path(root).rglob("*"))):
        if not os.path.islink(path):
            os.chmod(path, 0o755)
    return root
