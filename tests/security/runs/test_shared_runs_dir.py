"""A runs_dir that several people write to: nobody's Python, data or directories are taken for one's own."""

from __future__ import annotations

import errno
import hashlib
import os
import shutil
import stat
import struct
from pathlib import Path

import pytest
from driver import Cli
from security.people import ANNA, BEN, Machine, Person

ALL = 0xFFFFFFFF

JOB = "command: python -c 'print(1)'\nenvironment: {name: evil, pip: [alpha]}\n"


@pytest.fixture
def shared(machine: Machine) -> str:
    """As /tmp is: everybody makes directories, and nobody removes another's."""
    return machine.directory(0o1777)


def use(victim: Cli, runs_dir: str, more: str = "") -> None:
    victim.environ["WORLDSIZE_TRUST_PROJECT"] = "1"
    victim.write("worldsize.toml", '[compute.local]\nruns_dir = "%s"\n%s' % (runs_dir, more))


def place(uid: int, runs_dir: str) -> str:
    """What is the victim's of a directory of runs that is sticky."""
    return "%s/runs-%d" % (runs_dir, uid)


def of(uid: int, runs_dir: str, kind: str) -> str:
    return "%s/.%s-%d" % (place(uid, runs_dir) if os.stat(runs_dir).st_mode & stat.S_ISVTX else runs_dir, kind, uid)


MAKE = """
import os, sys
path, link = sys.argv[1:3]
os.symlink(link, path) if link else os.mkdir(path, 0o777)
"""
TRY_TO_MAKE = """
import os, sys
try: os.mkdir(sys.argv[1])
except OSError as error: print(error.errno)
"""
MOVE = "import os, sys; os.rename(*sys.argv[1:])"


def pre_made(attacker: Person, path: str, link: str = "") -> None:
    attacker.python(MAKE, path, link)


def test_a_sticky_runs_dir_of_roots_is_a_place_for_all(victim: Cli, shared: str, uid: int) -> None:
    use(victim, shared)
    run = victim.run("-q", "--", "true")
    root = Path(os.path.realpath(victim.path(run)))
    assert str(root.parent) == place(uid, shared) and stat.S_IMODE(root.stat().st_mode) == 0o700
    assert stat.S_IMODE(root.parent.stat().st_mode) == 0o711, "a group may enter what it may read"


def test_what_was_removed_there_nobody_else_can_make(victim: Cli, attacker: Person, shared: str, uid: int) -> None:
    """Found by review: runs that waited, scripts submitted by hand and commands on nodes executed what somebody else
    had made of a run, an environment or a directory of commands that was missing for a while."""
    use(victim, shared)
    root = os.path.realpath(victim.path(victim.run("-q", "--", "true")))
    shutil.rmtree(root)
    for path in (root, of(uid, shared, "envs"), of(uid, shared, "data"), of(uid, shared, "exec")):
        assert attacker.python(TRY_TO_MAKE, path) == "%d\n" % errno.EACCES, path


def test_a_run_has_no_access_list(tmp_path: Path, machine: Machine) -> None:
    """Found by review: by a default list above, the group of a shared run could write what it executes."""
    cli, place = Cli(str(tmp_path)), machine.directory(0o2755, 0, BEN)
    entries = ((1, 7, ALL), (2, 7, ANNA), (4, 7, ALL), (16, 7, ALL), (32, 0, ALL))
    packed = struct.pack("<I", 2) + b"".join(struct.pack("<HHI", *entry) for entry in entries)
    os.setxattr(place, "system.posix_acl_default", packed)
    use(cli, place)
    cli.write("code/helper.py", "VALUE = 1\n")
    cli.write("code/train.py", "import helper\n")
    cli.write("job.yml", "command: python train.py\ncode: ./code\nshare: group\n")
    cli.environ.pop("PYTHONDONTWRITEBYTECODE", None)
    root = Path(os.path.realpath(cli.path(cli.run("-q", "job.yml"))))
    found = [root, *root.rglob("*")]
    assert any(path.suffix == ".pyc" for path in found)
    for path in found:
        if not path.is_symlink():
            assert not [name for name in os.listxattr(path) if "acl" in name], path
            assert path.stat().st_mode & 0o022 == 0, path
    cli.close()


@pytest.mark.parametrize("mode", [0o777, 0o2777])
def test_a_runs_dir_where_others_could_replace_runs_is_refused(victim: Cli, machine: Machine, mode: int) -> None:
    directory = machine.directory(mode)
    use(victim, directory)
    refused = victim("run", "-q", "--", "true")
    assert refused.code == 1 and "every user may write to it" in refused.err, refused
    assert "worldsize config trust %s" % directory in refused.err
    for words in (("--dry-run", "--", "true"), ("--dry-run", "--count", "2", "--", "true")):
        shown = victim("run", *words)  # found by review: a batch script to be submitted by hand would run there
        assert shown.code == 1 and "every user may write to it" in shown.err and not shown.out
    assert os.listdir(directory) == []
    victim.ok("config", "trust", directory)
    victim.ok("run", "-q", "--", "true")


def test_another_users_runs_dir_is_refused(victim: Cli, attacker: Person, machine: Machine) -> None:
    use(victim, machine.directory(0o1777, attacker.uid))
    refused = victim("run", "-q", "--", "true")
    assert refused.code == 1 and "it belongs to" in refused.err and "uid %d" % attacker.uid in refused.err


def test_an_environment_that_another_made_is_not_executed(victim: Cli, attacker: Person, shared: str, uid: int) -> None:
    """Found by review: an environment's name follows from its public description, and so it could be made first."""
    use(victim, shared)
    victim.write("job.yml", JOB)
    pre_made(attacker, place(uid, shared))
    for words in (("run", "-q", "job.yml"), ("run", "--dry-run", "job.yml"), ("env", "build", "job.yml")):
        refused = victim(*words)
        assert refused.code in (1, 2) and "belongs to" in refused.err, (words, refused)


def test_a_built_environment_in_a_directory_of_anothers(victim: Cli, attacker: Person, machine: Machine) -> None:
    directory = machine.directory(0o755, attacker.uid)
    use(victim, machine.directory(0o1777), 'envs_dir = "%s"\n' % directory)
    victim.write("job.yml", JOB)
    refused = victim("run", "-q", "job.yml")
    assert refused.code != 0 and "worldsize config trust %s" % directory in refused.err


def test_stored_code_that_another_made(victim: Cli, attacker: Person, shared: str, uid: int) -> None:
    use(victim, shared)
    victim.write("train.py", "print(1)\n")
    pre_made(attacker, place(uid, shared))
    refused = victim("run", "-q", "--", "python", "train.py")
    assert refused.code == 1 and "belongs to" in refused.err


def test_stored_code_behind_a_link(victim: Cli, attacker: Person, machine: Machine, uid: int) -> None:
    """Found by review: prune then removed files two levels deep in the victim's home. In a directory without the sticky
    bit that the victim trusts, so that the link may be made at any time."""
    shared = machine.directory(0o777)
    use(victim, shared)
    victim.ok("config", "trust", shared)
    home = Path(machine.directory(0o755, uid))
    for name in ("Documents/thesis.tex", "ab/" + "0" * 40 + "-400", "tmp-0123"):
        path = home / name
        path.parent.mkdir(exist_ok=True)
        path.write_text("precious")
        for each in (path, path.parent):
            os.chown(each, uid, uid)
            os.utime(each, (0, 0))
    victim.write("train.py", "print(1)\n")
    pre_made(attacker, of(uid, shared, "objects"), str(home))
    refused = victim("run", "-q", "--", "python", "train.py")
    assert refused.code == 1 and "it is a link" in refused.err
    os.unlink(of(uid, shared, "objects"))
    victim.run("-q", "--", "python", "train.py")
    os.rename(of(uid, shared, "objects"), shared + "/moved")
    pre_made(attacker, of(uid, shared, "objects"), str(home))
    victim.ok("prune", "--keep", "0")
    assert sorted(path.name for path in home.rglob("*") if path.is_file()) == sorted(
        ("thesis.tex", "0" * 40 + "-400", "tmp-0123")
    )


def test_prune_touches_nothing_of_anothers(victim: Cli, attacker: Person, machine: Machine) -> None:
    """Neither what looks like a removal that was interrupted, nor a directory in the place of a run."""
    shared = machine.directory(0o777)
    use(victim, shared)
    victim.ok("config", "trust", shared)
    run = victim.run("-q", "--", "true")
    half = os.path.join(shared, ".pruned-20261123-000000-000000")
    script = "import os, sys; os.makedirs(sys.argv[1] + '/keep'); os.chmod(sys.argv[1] + '/keep', 0o500)"
    attacker.python(script, half)
    root = os.path.realpath(victim.path(run))
    os.rename(root, root + ".away")
    attacker.python("import shutil, sys; shutil.copytree(sys.argv[1], sys.argv[2])", half, root)
    result = os.path.join(root, "result.json")
    attacker.python("import sys; open(sys.argv[1], 'w').write(sys.argv[2])", result, _read(root + ".away/result.json"))
    assert "removed 0 run(s)" in victim.ok("prune", "--keep", "0").err
    assert stat.S_IMODE(os.stat(half + "/keep").st_mode) == 0o500 and os.path.exists(result)


def _read(path: str) -> str:
    with open(path) as file:
        return file.read()


def test_prune_where_others_may_write_by_now(victim: Cli, attacker: Person, machine: Machine, uid: int) -> None:
    """Found by review: they gave a directory of the victim's the name of a removal that was interrupted."""
    directory = machine.directory(0o700, uid)
    use(victim, directory)
    victim.run("-q", "--", "true")
    precious = os.path.join(directory, "thesis")
    os.mkdir(precious)
    os.chown(precious, uid, uid)
    os.chmod(directory, 0o777)
    name = directory + "/.pruned-20261123-000000-000000"
    attacker.python(MOVE, precious, name)
    refused = victim("prune", "--keep", "0")
    assert refused.code == 1 and "every user may write to it" in refused.err and os.path.isdir(name)
    assert victim("prune", "--keep", "1").code == 0 and os.path.isdir(name)


@pytest.fixture(params=[0o775, 0o777], ids=["a group's", "everybody's"])
def movable(request: pytest.FixtureRequest, machine: Machine, uid: int, attacker: Person) -> str:
    """A directory of the victim's that others can write to, in one where they can too: they can move it."""
    path = os.path.join(machine.directory(0o777), "project")
    os.makedirs(path + "/results")
    Path(path, "results", "model.pt").write_text("precious")
    for each in (path, path + "/results", path + "/results/model.pt"):
        os.chown(each, uid, attacker.uid)
    os.chmod(path, request.param)
    return path


def test_prune_where_others_have_moved_a_directory(victim: Cli, attacker: Person, shared: str, movable: str) -> None:
    """Found by review: under the name of a removal that was interrupted, it was removed."""
    use(victim, shared)
    victim.run("-q", "--", "true")
    name = shared + "/.pruned-20261123-000000-000000.x"
    attacker.python(MOVE, movable, name)
    assert "removed 1 run(s)" in victim.ok("prune", "--keep", "0").err
    assert _read(name + "/results/model.pt") == "precious"


def test_prune_of_a_run_whose_name_others_have_given(victim: Cli, attacker: Person, shared: str, movable: str) -> None:
    """Found by review: once a run was moved away by hand, a directory of the victim's in its place was removed."""
    use(victim, shared)
    root = os.path.realpath(victim.path(victim.run("-q", "--", "true")))
    os.rename(root, movable + "/run")
    os.rename(movable + "/run/result.json", movable + "/result.json")
    os.rename(movable, root)
    refused = victim("prune", "--keep", "0")
    assert refused.code == 1 and "is not removed: " in refused.err and "may write to it" in refused.err
    assert _read(root + "/results/model.pt") == "precious"


def test_data_that_another_put_under_a_checksum(
    victim: Cli, attacker: Person, shared: str, uid: int, machine: Machine
) -> None:
    """Found by review: what lay under the declared sha256 was taken unread, whoever had put it there."""
    digest = hashlib.sha256(b"good").hexdigest()
    put = """
import os, sys
directory, digest = sys.argv[1:]
os.makedirs("%s/files/%s" % (directory, digest), 0o777, exist_ok=True)
open("%s/files/%s/data.bin" % (directory, digest), "w").write("evil pickle")
"""
    job = "command: cat ${{inputs.data}}\ninputs:\n  data: {type: uri_file, path: '%s', sha256: %s}\n"
    victim.write("job.yml", job % ("http://127.0.0.1:9/data.bin", digest))
    derived, named = of(uid, shared, "data"), machine.directory(0o777)
    for directory, more in ((derived, ""), (named, 'data_dir = "%s"\n' % named)):
        attacker.python(put, directory, digest)
        use(victim, shared, more)
        result = victim("run", "-q", "job.yml")
        assert result.code == 1 and "cannot be trusted" in result.err and "evil" not in result.out, result


def test_a_home_that_others_can_write_to(victim: Cli, attacker: Person, machine: Machine, uid: int) -> None:
    """Its agent is executed, and its runs are."""
    victim.environ["WORLDSIZE_HOME"] = home = machine.directory(0o777, uid)
    refused = victim("run", "-q", "--", "true")
    assert refused.code == 1 and "%s: its content could be replaced: every user may" % home in refused.err
    victim.ok("config", "trust", home)
    pre_made(attacker, home + "/cache")
    refused = victim("run", "-q", "--", "true")
    assert refused.code == 1 and "belongs to" in refused.err
    os.rmdir(home + "/cache")
    os.rename(home + "/runs", home + "/gone")
    pre_made(attacker, home + "/runs")
    refused = victim("run", "-q", "--", "true")
    assert refused.code == 1 and "belongs to" in refused.err


def test_what_nodes_have_is_not_kept_in_a_home_of_somebody_else(
    victim: Cli, attacker: Person, machine: Machine, uid: int
) -> None:
    """Found by review: `env probe` replaced a file of the victim's, through a link in the attacker's home."""
    home, away = machine.directory(0o755, attacker.uid), machine.directory(0o700, uid)
    kept = Path(away, "local.json")
    kept.write_text("precious")
    attacker.python("import os, sys; os.symlink(*sys.argv[1:])", away, home + "/probed")
    refused = victim("env", "probe", "--compute", "local", WORLDSIZE_HOME=home)
    assert refused.code == 1 and home in refused.err, refused
    assert kept.read_text() == "precious"
    victim.ok("env", "probe", "--compute", "local")


def test_a_home_behind_a_link_of_ones_own(victim: Cli, machine: Machine, uid: int) -> None:
    """People move their runs to a larger disk."""
    away = machine.directory(0o700, uid)
    os.mkdir(victim.home)
    os.symlink(away, victim.home + "/runs")
    for path in (victim.home, victim.home + "/runs"):
        os.chown(path, uid, uid, follow_symlinks=False)
    run = victim.run("-q", "--", "true")
    assert os.path.isdir(os.path.join(away, run))
