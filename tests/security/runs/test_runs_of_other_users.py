"""Runs of other users: they can be looked at, and nothing of what they say is done."""

from __future__ import annotations

import json
import os
import shutil
import socket
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
    wait_for(lambda: victim.has_begun(run) and "up" in victim.ok("logs", run, "--raw").out)
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


@pytest.mark.exhaustive(unless=["root-words0", "anna-words1", "root-words2"])
@pytest.mark.parametrize("words", [("cancel", "{}"), ("cancel", "--now", "{}"), ("requeue", "{}")])
def test_it_is_not_ended(victim: Cli, own: str, directory: str, words: tuple[str, ...]) -> None:
    """Found by review: a directory may name any process and any run."""
    refused = victim(*(word.format(directory) for word in words))
    assert refused.code != 0 and "is for runs of your own: it belongs to" in refused.err
    end(victim, own)


@pytest.mark.exhaustive(
    unless=["root-words0-", "anna-words1-/", "root-words1-//", "anna-words0-/.", "anna-words0-/attempt-0/.."]
)
@pytest.mark.parametrize("tail", ["", "/", "//", "/.", "/attempt-0/.."])
@pytest.mark.parametrize("words", [("cancel", "--now"), ("requeue",)])
def test_a_link_of_anothers_to_ones_own_run(
    victim: Cli, attacker: Person, own: str, machine: Machine, words: tuple[str, ...], tail: str
) -> None:
    """Found by review: what looked like the other's run was one's own, and was cancelled; or with a slash behind."""
    link = os.path.join(machine.directory(0o755, attacker.uid), own)
    attacker.python("import os, sys; os.symlink(*sys.argv[1:])", os.path.realpath(victim.path(own)), link)
    refused = victim(*words, link + tail)
    assert refused.code == 2 and "it is a link of" in refused.err and "points to a run of yours" in refused.err
    end(victim, own)


@pytest.mark.parametrize("tail", ["", "/"])
def test_a_link_of_anothers_above(victim: Cli, attacker: Person, own: str, machine: Machine, tail: str) -> None:
    """Found by review: a link above a run was not looked at."""
    link = os.path.join(machine.directory(0o755, attacker.uid), "runs")
    runs = os.path.dirname(os.path.realpath(victim.path(own)))
    attacker.python("import os, sys; os.symlink(*sys.argv[1:])", runs, link)
    refused = victim("cancel", "--now", os.path.join(link, own) + tail)
    assert refused.code == 2 and "it is a link of" in refused.err and "points to a run of yours" in refused.err
    end(victim, own)


def test_a_link_of_ones_own_to_a_run(victim: Cli, own: str, machine: Machine, uid: int) -> None:
    """People make them: it is the run, however it is written."""
    link = os.path.join(machine.directory(0o755, uid), "latest")
    os.symlink(os.path.realpath(victim.path(own)), link)
    os.chown(link, uid, uid, follow_symlinks=False)
    assert victim.status(link + "/")["id"] == own
    victim.ok("cancel", "--now", link + "/")
    wait_for(lambda: victim.status(own)["state"] == "CANCELLED")


def test_a_link_in_anothers_home(victim: Cli, attacker: Person, own: str, machine: Machine) -> None:
    """Found by review: an id of theirs, in their home, was one's own run."""
    home = machine.directory(0o755, attacker.uid)
    script = (
        "import os, sys; os.mkdir(sys.argv[2] + '/runs'); os.symlink(sys.argv[1], sys.argv[2] + '/runs/' + sys.argv[3])"
    )
    attacker.python(script, os.path.realpath(victim.path(own)), home, own)
    refused = victim("cancel", own, WORLDSIZE_HOME=home)
    assert refused.code != 0 and "points to a run of yours" in refused.err, refused
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
    assert refused.code != 0 and "is for runs of your own: it belongs to" in refused.err
    assert len(victim.json("list")) == 1


def test_a_run_of_ones_own_where_others_could_replace_it(victim: Cli, machine: Machine, own: str, uid: int) -> None:
    """Found by review: only who owned the directory was looked at, and then it was read by its name; whoever could
    rename it in between had code of his own executed."""
    lab = machine.directory(0o777)
    root = os.path.join(lab, own)
    shutil.copytree(os.path.realpath(victim.path(own)), root, symlinks=True)
    for found in (root, *map(str, Path(root).rglob("*"))):
        os.chown(found, uid, uid, follow_symlinks=False)
    why = "is for runs of your own: in %s other users could replace it: every user may write to it" % lab
    for words in (("rerun", root), ("cancel", root), ("requeue", root), ("exec", root, "--", "id"), ("shell", root)):
        refused = victim(*words)
        assert refused.code != 0 and why in refused.err
    assert victim.status(root)["id"] == own and victim.ok("logs", root, "--raw").out == "up\n"
    end(victim, own)
    victim.ok("config", "trust", lab)
    victim.write("go", "")
    victim.ok("rerun", root, "--dry-run")


@pytest.mark.parametrize("how", ["a directory", "a link to one's own run", "a link to a directory of one's own"])
def test_what_another_put_in_the_place_of_a_removed_run(
    victim: Cli, attacker: Person, machine: Machine, how: str, uid: int
) -> None:
    """Found by review: where several people's runs lie, the name of a run that was removed is free for everybody."""
    shared = machine.directory(0o1777)
    place = os.path.join(shared, "runs-%d" % uid)
    victim.environ["WORLDSIZE_TRUST_PROJECT"] = "1"
    victim.write("worldsize.toml", '[compute.local]\nruns_dir = "%s"\n' % shared)
    run = victim.run("-q", "--", "false", code=1)
    root = os.path.realpath(victim.path(run))
    other = os.path.realpath(victim.path(victim.run("-q", "--", "true")))
    os.rename(root, root + "-aside")
    os.chmod(place, 0o1777)  # as nobody should
    if how == "a directory":
        script = "import shutil, sys; shutil.copytree(*sys.argv[1:], symlinks=True)"
        attacker.python(script, readable(root + "-aside"), root)
    else:
        box = machine.directory(0o1777, uid)
        attacker.python("import os, sys; os.symlink(*sys.argv[1:])", other if "run" in how else box, root)
        attacker.python("import sys; open(sys.argv[1] + '/plan.json', 'w')", box)
    before = set(Path(shared).rglob("*"))
    for words in (("status", run), ("wait", run), ("logs", run), ("rerun", run), ("diff", run, run), ("cancel", run)):
        refused = victim(*words)
        assert refused.code != 0 and "another user has created one of that name" in refused.err, (words, refused)
    rows = {row["id"]: row["state"] for row in victim.json("list")}
    assert rows == {run: "LOST", os.path.basename(other): "SUCCEEDED"}
    assert set(Path(shared).rglob("*")) == before
    victim.ok("prune", "--keep", "0", "--dry-run")


RENAME = """
import os, sys
name, own = sys.argv[1:]
print(flush=True)
while not os.path.exists(os.path.dirname(own) + "/stop"):
    for each in ((own, name), (name, own)):
        os.rename(*each)
"""


def test_a_removed_run_whose_name_comes_and_goes(victim: Cli, attacker: Person, machine: Machine) -> None:
    """Found by review: a directory that was missing when its owner was looked at counted as one's own."""
    shared, mark = machine.directory(0o1777), machine.directory(0o777)
    victim.environ["WORLDSIZE_TRUST_PROJECT"] = "1"
    victim.write("worldsize.toml", '[compute.local]\nruns_dir = "%s"\n' % shared)
    victim.write("sleep.py", SLEEP)
    other = victim.submit("--", "python", "sleep.py")
    wait_for(lambda: victim.has_begun(other) and "up" in victim.ok("logs", other, "--raw").out)
    run = victim.run("-q", "--", "true")
    root = os.path.realpath(victim.path(run))
    box = machine.directory(0o755, attacker.uid)
    theirs = os.path.join(box, "theirs")
    shutil.copytree(os.path.realpath(victim.path(other)), theirs, symlinks=True)
    Path(theirs, "job.yml").write_text("command: touch %s/executed\n" % mark)
    for found in (theirs, *map(str, Path(theirs).rglob("*"))):
        os.chown(found, attacker.uid, attacker.uid, follow_symlinks=False)
        if not os.path.islink(found):
            os.chmod(found, 0o755)
    shutil.rmtree(root)
    with attacker.start_python(RENAME, root, theirs) as process:
        assert process.stdout is not None and process.stdout.readline()
        for _ in range(12):
            victim("cancel", "--now", run)
            victim("rerun", run, "-q")
        Path(box, "stop").touch()
        process.wait(30)
    assert victim.status(other)["state"] == "RUNNING" and not os.listdir(mark)
    victim.ok("cancel", "--now", other)


def readable(root: str) -> str:
    for path in (root, *map(str, Path(root).rglob("*"))):
        if not os.path.islink(path):
            os.chmod(path, 0o755)
    return root


def test_an_array_of_anothers_ends_nothing_and_nothing_is_written(
    victim: Cli, attacker: Person, own: str, machine: Machine, uid: int
) -> None:
    """Found by review: an element that was a link to a directory of one's own counted as one's own, and the array told
    which process was its."""
    array = victim.submit("--count", "2", "--", "true")
    victim("wait", array)
    root = os.path.join(machine.directory(0o755, attacker.uid), array)
    shutil.copytree(os.path.realpath(victim.path(array)), root, symlinks=True)
    precious = machine.directory(0o700, uid)
    for name in ("plan.json", "secrets.json"):
        shutil.copy(os.path.join(root, array + "_1", "plan.json"), os.path.join(precious, name))
        os.chown(os.path.join(precious, name), uid, uid)
    shutil.rmtree(os.path.join(root, array + "_1"))
    os.symlink(precious, os.path.join(root, array + "_1"))
    for path in (root + "/result.json", root + "/%s_0/result.json" % array):
        os.unlink(path)
    handle = {"type": "local", "pid": 4194000, "start_time": 1, "host": socket.gethostname(), "run_id": own}
    Path(root, "handles.json").write_text(json.dumps([handle, handle]))
    for found in (root, *map(str, Path(root).rglob("*"))):
        os.chown(found, attacker.uid, attacker.uid, follow_symlinks=False)
    before = set(Path(root).rglob("*"))
    for words in (("status", root), ("status", "%s/%s_1" % (root, array)), ("logs", root), ("wait", root)):
        victim(*words, timeout=60)
    assert victim.status(own)["state"] == "RUNNING"
    assert set(Path(root).rglob("*")) == before and sorted(os.listdir(precious)) == ["plan.json", "secrets.json"]
    end(victim, own)


def test_a_link_of_theirs_in_the_code_of_a_run_again(victim: Cli, attacker: Person) -> None:
    """Found by review: the run's own code has a link of the victim's in its place, which the next run believed."""
    victim.write("data/x", "x")
    secret = victim.write("../secret", "only the victim's")
    link = os.path.join(victim.project, "data", "notes.txt")
    os.symlink(os.path.realpath(secret), link)
    os.chown(link, attacker.uid, attacker.uid, follow_symlinks=False)
    first = victim("run", "-q", "--", "true")
    assert first.code == 0 and "data/notes.txt" in first.err, first
    for _ in range(2):
        again = victim("rerun", "-q")
        assert again.code == 0 and "data/notes.txt" in again.err, again
        copied = victim.path(victim.latest(), "code", "data", "notes.txt")
        assert os.path.islink(copied) and Path(copied).read_text() == "only the victim's"
    inside = victim.path(victim.latest(), "code")
    shutil.copy(victim.write("job.yml", "command: 'true'\ncode: .\n"), os.path.join(inside, "data", "job.yml"))
    below = victim("run", "-q", os.path.join(inside, "data", "job.yml"))
    assert below.code == 0 and os.path.islink(victim.path(victim.latest(), "code", "notes.txt")), below


WRITES = "import pathlib\ntry: pathlib.Path('outputs/result.txt').write_text('accuracy 0.9')\nexcept OSError: pass\n"


def plant(victim: Cli, attacker: Person, name: str, target: str) -> None:
    """A link of the attacker's in a directory of the code where others may make files."""
    link = os.path.join(victim.project, name)
    os.chmod(os.path.dirname(link), 0o1777)
    os.symlink(target, link)
    os.chown(link, attacker.uid, attacker.uid, follow_symlinks=False)


def way_out(path: str, name: str) -> str:
    """A link's text that stays in `code/` by its names, once `NAME/l` leads to `.`, and leads to `path`."""
    return "../code/%s/%s%s/..%s" % (name, "l/" * 20, "/".join([".."] * 20), path)


def test_a_link_of_theirs_below_outputs_leads_no_rank_to_the_victims_files(victim: Cli, attacker: Person) -> None:
    """Found by review: within the code by its names, it led out of it in the run, where it was the victim's own."""
    precious = os.path.realpath(victim.write("../precious", "precious"))
    victim.write("outputs/x", "x")
    victim.write("train.py", WRITES)
    plant(victim, attacker, "outputs/l", ".")
    plant(victim, attacker, "outputs/result.txt", way_out(precious, "outputs"))
    done = victim("run", "-q", "--", "python", "train.py")
    assert done.code == 0 and "outputs/result.txt: leads to" in done.err, done
    assert Path(precious).read_text() == "precious"
    assert os.readlink(victim.path(victim.latest(), "outputs", "result.txt")).endswith("/outputs/result.txt")


def test_a_link_of_theirs_in_the_code_leads_a_run_again_to_no_file_beside_it(victim: Cli, attacker: Person) -> None:
    """Found by review: it led to the secrets of a run; the next run copied them to where a group may read."""
    precious = os.path.realpath(victim.write("../precious", "only the victim's"))
    victim.write("data/x", "x")
    plant(victim, attacker, "data/labels.txt", "../outputs/../plan.json")
    plant(victim, attacker, "data/l", ".")
    plant(victim, attacker, "data/more.txt", "../outputs/" + way_out(precious, "data"))
    first = victim("run", "-q", "--", "true")
    again = victim("rerun", "-q")
    assert first.code == again.code == 0, (first, again)
    for name in ("labels.txt", "more.txt"):
        assert "data/%s: leads to" % name in first.err and "data/%s: leads to" % name in again.err
        assert os.path.islink(victim.path(victim.latest(), "code", "data", name))
