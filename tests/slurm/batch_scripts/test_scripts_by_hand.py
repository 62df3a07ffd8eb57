"""The script that `--dry-run` prints, kept and submitted without us."""

from __future__ import annotations

import json
import os
import re
import shutil
import struct
import subprocess
import sys
import zipfile
import zlib
from binascii import a2b_base64
from pathlib import Path

import pytest
from driver import wait_for
from slurm.by_hand import script, submit
from slurm.login import OVER, PATIENCE, UP, Login

from worldsize.compute.slurm.script_trust import TRUST_FUNCTIONS

ALL = 0xFFFFFFFF


def test_it_trains_and_the_run_is_known_as_any_other(login: Login) -> None:
    login.write(
        "train.py",
        "import torch, torch.distributed as dist\n"
        "dist.init_process_group('gloo')\n"
        "total = torch.tensor([dist.get_rank() + 1.0])\n"
        "dist.all_reduce(total)\n"
        "open('outputs/sum-%d' % dist.get_rank(), 'w').write(str(int(total)))\n"
        "dist.destroy_process_group()\n",
    )
    run = submit(login, script(login, login.job("python train.py", "2x2", code=".")))
    status = login.ended(run)
    assert (status["state"], status["nodes"], status["ranks"]) == ("SUCCEEDED", 2, 4)
    assert [login.read(run, "outputs", "sum-%d" % rank) for rank in range(4)] == ["10"] * 4
    assert login.json("list", "-n", "1")[0]["id"] == run
    assert not os.path.exists(os.path.join(login.project, "outputs"))


@pytest.mark.parametrize("by_hand", [False, True])
def test_a_script_of_a_shared_run_is_for_its_owner(login: Login, by_hand: bool) -> None:
    """Found by review: it travels in the preview, and was made for the group to read where it was submitted by hand."""
    path = login.write("step.sh", "#!/bin/bash\n#SBATCH -N 1\nexport HF_TOKEN=hunter2\nsrun true\n")
    login.write(".amlignore", "*.sh\n*.out\n")
    words = (os.path.basename(path), "--set", "share=group")
    if by_hand:
        run = submit(login, script(login, *words))
        assert login.ended(run)["state"] == "SUCCEEDED"
    else:
        login.ok("run", *words)
        run = login.latest()
    root = Path(login.path(run)).resolve()
    assert root.stat().st_mode & 0o777 == 0o750
    files = [each for each in root.rglob("*") if each.is_file() and not each.is_symlink()]
    with_script = [each for each in files if holds(each.read_bytes(), b"hunter2")]
    assert with_script and [each for each in with_script if each.stat().st_mode & 0o077] == []


def holds(data: bytes, word: bytes) -> bool:
    """Also in what travels in a script."""
    parts = re.findall(rb"^# begin \S+\n(.*?)^# end$", data, re.MULTILINE | re.DOTALL)
    return word in data or any(word in zlib.decompress(a2b_base64(part), 31) for part in parts)


@pytest.mark.exhaustive
def test_many_times_and_each_is_a_run_of_its_own(login: Login) -> None:
    path = script(login, "-w", "2x1", "--", "sh", "-c", "echo $WORLDSIZE_RUN_ID $RANK; exit $((RANK * 0))")
    runs = [submit(login, path) for _ in range(3)]
    assert len(set(runs)) == 3
    for run in runs:
        assert login.ended(run)["state"] == "SUCCEEDED"
        assert login.ok("logs", run, "--rank", "1", "--raw").out == "%s 1\n" % run


def test_a_failure_is_explained_and_cancel_reaches_it(login: Login) -> None:
    failing = submit(login, script(login, login.job(UP + "; [ $RANK = 1 ] && exit 7; sleep 60", "2x1")))
    status = login.ended(failing)
    assert (status["exit_code"], status["failure"]["rank"]) == (7, 1)
    endless = submit(login, script(login, login.job(UP + "; sleep 60", "2x1")))
    login.wait_up(endless)
    login.ok("cancel", endless)
    assert login.ended(endless)["state"] == "CANCELLED"


def test_what_we_submitted_ourselves_can_be_submitted_again(login: Login) -> None:
    run = login.run("-w", "1x1", "--", "echo", "hi")
    again = submit(login, login.path(run, "submission.txt"))
    assert again == "%s-%s" % (run, json.loads(login.read(again, "handle.json"))["job"])
    assert login.ended(again)["state"] == "SUCCEEDED" and login.ok("logs", again).out == "0:0: hi\n"


def with_runs_in(login: Login, name: str, mode: int) -> str:
    """A directory of runs beside the home, of this mode; where others may write to it, our own one in it."""
    runs = os.path.join(os.path.dirname(login.home), name)
    os.mkdir(runs)
    os.chmod(runs, mode)
    login.write(
        "worldsize.toml", 'default_compute = "slurm"\n[compute.slurm]\ntype = "slurm"\nruns_dir = "%s"\n' % runs
    )
    if mode == 0o1777:
        runs = os.path.join(runs, "runs-%d" % os.geteuid())
        os.mkdir(runs)
        os.chmod(runs, 0o711)
    return runs


@pytest.mark.exhaustive(unless=["the run's-everybody's", "the job's-somebody else's", "the job's-a group's"])
@pytest.mark.parametrize(
    ("owner", "mode"), [(65534, 0o777), (0, 0o775), (0, 0o777)], ids=["somebody else's", "a group's", "everybody's"]
)
@pytest.mark.parametrize("taken", ["the run's", "the job's"])
def test_a_directory_of_somebody_elses_is_no_run_of_ours(login: Login, taken: str, owner: int, mode: int) -> None:
    """Found by review: where others may write to the directory of runs, they could have their own agent executed; also
    from a directory of the user's that they could write to, and so move there."""
    runs = with_runs_in(login, "shared-runs", 0o1777)
    path = script(login, "-w", "1x1", "--", "true")
    (line,) = (line for line in open(path) if line.startswith("ID="))
    first, mark = line.strip()[3:], os.path.join(login.project, "executed")
    jobs = login.cluster.command("sbatch", "--parsable", "--hold", "--output=/dev/null", path).strip()
    names = [first] if taken == "the run's" else ["%s-%d" % (first, int(jobs) + 1 + more) for more in range(5)]
    for name in names:
        folder = os.path.join(runs, name)
        os.mkdir(folder)
        with open(os.path.join(folder, "agent.pyz"), "w") as file:
            file.write("open(%r, 'w')\n" % mark)
        with open(os.path.join(folder, "plan.json"), "w") as file:
            file.write("{}")
        for each in (folder, *(os.path.join(folder, name) for name in os.listdir(folder))):
            os.chown(each, owner, 65534)
        os.chmod(folder, mode)
    login.cluster.command("scancel", jobs)
    out = path + ".out"
    argv = ["sbatch", "--wait", "--parsable", "--output=" + out, path]
    ended = subprocess.run(argv, env=login.environ, stdout=subprocess.PIPE, text=True)
    assert not os.path.exists(mark)
    if taken == "the run's":
        assert ended.returncode == 0 and login.status("%s-%s" % (first, ended.stdout.strip()))["state"] == "SUCCEEDED"
    else:
        assert ended.returncode == 1 and "File exists" in open(out).read()


def is_ours(run: Path) -> bool:
    """As the script asks it of its run's directory, on its first node and on all others."""
    script = "\n".join((*TRUST_FUNCTIONS, "OWN=%d" % os.geteuid(), "ours"))
    environ = {**os.environ, "RUN": str(run)}
    codes = [subprocess.run([shell, "-c", script], env=environ).returncode for shell in ("bash", "sh")]
    assert codes in ([0, 0], [1, 1])
    return codes[0] == 0


@pytest.mark.parametrize(
    ("mode", "above", "ours"),
    [
        (0o700, 0o1777, True),
        (0o750, 0o1777, True),
        (0o755, 0o1777, True),
        (0o775, 0o1777, False),
        (0o770, 0o3770, False),
        (0o757, 0o1777, False),
        (0o777, 0o1777, False),
        (0o777, 0o1770, False),
        (0o777, 0o777, True),
        (0o770, 0o770, True),
    ],
)
def test_a_directory_that_others_can_write_to(tmp_path: Path, mode: int, above: int, ours: bool) -> None:
    """Found by review: they can move it to where a script looks for its run. Where others could replace every run, as
    some file servers show all that they hold, the user trusts them."""
    run = tmp_path / "runs" / "run"
    run.mkdir(parents=True)
    run.chmod(mode)
    run.parent.chmod(above)
    assert is_ours(run) is ours


def test_what_is_no_directory_of_ones_own(tmp_path: Path) -> None:
    run, link = tmp_path / "run", tmp_path / "link"
    run.mkdir(0o700)
    link.symlink_to(run)
    assert is_ours(run) and not is_ours(link) and not is_ours(tmp_path / "missing")


@pytest.mark.skipif(os.geteuid() != 0, reason="only root gives directories away")
@pytest.mark.parametrize("above", [0o1777, 0o777])
def test_what_is_a_directory_of_somebody_elses(tmp_path: Path, above: int) -> None:
    run = tmp_path / "runs" / "run"
    run.mkdir(parents=True)
    run.parent.chmod(above)
    os.chown(run, 65534, 65534)
    assert not is_ours(run)


@pytest.mark.exhaustive
def test_an_array_whose_directory_somebody_else_has_made(login: Login) -> None:
    """Found by review: where an array was removed while it was queued, whatever lay under its name was executed."""
    shared = with_runs_in(login, "shared-runs", 0o1777)
    run = login.begin("true", "1x1", slurm={"sbatch_options": {"begin": "now+1hour"}}, count=2)
    job = json.loads(Path(shared, run, "handles.json").read_text())[0]["job"].partition("_")[0]
    shutil.rmtree(os.path.join(shared, run))
    executed = os.path.join(shared, "executed")
    for element in (run + "_0", run + "_1"):
        place = os.path.join(shared, run, element)
        os.makedirs(place)
        Path(place, "plan.json").write_text("{}")
        with zipfile.ZipFile(os.path.join(place, "agent.pyz"), "w") as agent:
            agent.writestr("__main__.py", "open(%r, 'w')" % executed)
    for each in (os.path.join(shared, run), *map(str, Path(shared, run).rglob("*"))):
        os.chown(each, 65534, 65534)
    login.update(job, StartTime="now")
    wait_for(lambda: all(login.state("%s_%d" % (job, number)) in OVER for number in range(2)), PATIENCE)
    assert not os.path.exists(executed)


def with_listed_runs(login: Login) -> str:
    """A directory of runs of which all that is made there inherits that somebody else may write to it."""
    runs = with_runs_in(login, "listed", 0o755)
    entries = ((1, 7, ALL), (2, 7, 61002), (4, 7, ALL), (16, 7, ALL), (32, 0, ALL))
    packed = struct.pack("<I", 2) + b"".join(struct.pack("<HHI", *entry) for entry in entries)
    os.setxattr(runs, "system.posix_acl_default", packed)
    return runs


@pytest.mark.exhaustive
def test_an_access_list_above(login: Login) -> None:
    """Found by review: a run of a script that was submitted by hand inherited it, and others could write its agent."""
    runs = with_listed_runs(login)
    run = submit(login, script(login, "-w", "1x1", "--", "true"))
    assert login.ended(run)["state"] == "SUCCEEDED"
    for path in (Path(runs, run), *Path(runs, run).rglob("*")):
        if not path.is_symlink():
            assert not [name for name in os.listxattr(path) if "acl" in name], path
            assert path.stat().st_mode & 0o022 == 0, path


def test_an_access_list_above_opens_no_run_for_a_moment(login: Login) -> None:
    """Found by review: until the script had dropped the list, others could put an agent there."""
    runs = with_listed_runs(login)
    path, seen = script(login, "-w", "1x1", "--", "true"), os.path.join(login.project, "seen")
    mkdir = '"$REAL" "$@" && for each; do [ "${each%%/*}" != %s ] || stat -c %%a "$each" >>%s; done' % (runs, seen)
    argv = ["sbatch", "--wait", "--parsable", "--output=%s.out" % path, path]
    subprocess.run(argv, env={**login.environ, **login.shadow("mkdir", mkdir)}, check=True)
    assert Path(seen).read_text() == "700\n"


@pytest.mark.exhaustive
def test_a_directory_of_runs_that_somebody_else_has_made(login: Login) -> None:
    """Found by review: the script made what was missing, took what was there, and whose it was it did not ask."""
    shared = os.path.join(os.path.dirname(login.home), "scratch")
    runs = os.path.join(shared, "mine", "runs")
    os.mkdir(shared)
    os.chmod(shared, 0o1777)
    login.write(
        "worldsize.toml", 'default_compute = "slurm"\n[compute.slurm]\ntype = "slurm"\nruns_dir = "%s"\n' % runs
    )
    refused = login("run", "--dry-run", "-w", "1x1", "--", "true")
    assert refused.code != 0 and "does not exist" in refused.err and "mkdir -p -m 700" in refused.err
    os.makedirs(runs, mode=0o700)
    path = script(login, "-w", "1x1", "--", "true")
    argv = ["sbatch", "--wait", "--parsable", "--output=%s.out" % path, path]
    for there in ("", "directory", "link"):
        shutil.rmtree(os.path.join(shared, "mine"))
        if there == "link":  # to a directory of the user's, at first
            os.mkdir(os.path.dirname(runs))
            os.mkdir(os.path.join(shared, "own"), 0o700)
            os.symlink(os.path.join(shared, "own"), runs)
            os.chown(runs, 65534, 65534, follow_symlinks=False)
        elif there:
            os.makedirs(runs)
            for each in (os.path.dirname(runs), runs):
                os.chown(each, 65534, 65534)
                os.chmod(each, 0o777)
        ended = subprocess.run(argv, env=login.environ, stdout=subprocess.PIPE, text=True)
        assert ended.returncode == 1 and "no directory of runs that is yours" in Path(path + ".out").read_text()
        assert os.path.exists(runs) == bool(there) and (not there or os.listdir(runs) == [])
        os.makedirs(os.path.join(shared, "mine"), exist_ok=True)


def test_an_environment_that_is_not_built_is_said(login: Login) -> None:
    login.write("job.yml", "command: 'true'\nenvironment: {name: torch, build: [{run: 'true'}]}\n")
    result = login.ok("run", "--dry-run", "job.yml")
    assert "the environment is not built, and this script does not build it" in result.err, result


@pytest.mark.exhaustive(unless=["named-envs_dir", "behind a link-data_dir"])
@pytest.mark.parametrize("key", ["envs_dir", "data_dir"])
@pytest.mark.parametrize("linked", [False, True], ids=["named", "behind a link"])
def test_a_place_that_somebody_else_could_make_sooner(login: Login, key: str, linked: bool) -> None:
    """Found by review: what was not there when the script was written was executed once another user had made it."""
    runs = with_runs_in(login, "mine", 0o755)
    open_to_all = os.path.join(os.path.dirname(login.home), "scratch")
    os.mkdir(open_to_all)
    os.chmod(open_to_all, 0o1777)
    place = os.path.join(open_to_all, "later")
    if linked:
        os.symlink(place, os.path.join(login.project, "link"))
    config = 'default_compute = "slurm"\n[compute.slurm]\ntype = "slurm"\nruns_dir = "%s"\n%s = "%s"\n'
    login.write("worldsize.toml", config % (runs, key, "link" if linked else place))
    refused = login("run", "--dry-run", "--", "true")
    assert refused.code == 1 and "another user could create it first" in refused.err and not refused.out, refused
    os.mkdir(place)
    script(login, "--", "true")


def test_what_lies_at_the_runs_path_on_another_node(login: Login) -> None:
    """Found by review: a node that does not see the run's file system executed what somebody else had made there; and
    where that was, or could be, in a directory of theirs, even after a look at the run's own."""
    text = Path(script(login, "-w", "2x1", "--", "true")).read_text()
    parts = [text.split(name + "='", 1)[1].split("'\n", 1)[0] for name in ("LOOK", "THERE", "AGENT")]
    above = os.path.join(login.project, "above")
    place = os.path.join(above, "theirs")
    os.makedirs(os.path.join(place, "attempt-0", "logs"))
    mark = os.path.join(login.project, "executed")
    with zipfile.ZipFile(os.path.join(place, "agent.pyz"), "w") as file:
        file.writestr("__main__.py", "open(%r, 'w')" % mark)
    words = ["sh", "-c", "\n".join(parts), sys.executable, place, "0", str(os.geteuid()), "", above]
    environ = {**login.environ, "SLURM_NODEID": "1"}

    def code(*named: str) -> int:
        return subprocess.run([*words, *named], env=environ).returncode

    assert code(above, above + "/missing/bin") == 0 and os.path.exists(mark)
    os.unlink(mark)
    os.rename(place, place + ".moved")
    os.symlink(place + ".moved", place)
    assert code() == 73
    os.unlink(place)
    os.rename(place + ".moved", place)
    os.chown(above, 65534, 65534)
    assert code() == 73
    os.chown(above, 0, 0)
    os.mkdir(above + "/open")
    os.chmod(above + "/open", 0o1777)
    os.mkdir(above + "/open/theirs")
    os.chown(above + "/open/theirs", 65534, 65534)
    assert code(above + "/open/theirs/bin") == code(above + "/open/missing/bin") == 74
    os.chown(place, 65534, 65534)
    assert code() == 73
    assert not os.path.exists(mark)


def test_its_ranks_have_the_umask_of_the_shell_that_made_the_script(login: Login) -> None:
    """With or without lines of setup; the run's own files are private."""
    before = os.umask(0o027)
    try:
        path = script(login, login.job("touch outputs/made", setup=["touch outputs/by-setup"]))
    finally:
        os.umask(before)
    run = submit(login, path)
    assert login.ended(run)["state"] == "SUCCEEDED"
    root = Path(login.path(run)).resolve()
    assert [(root / "outputs" / name).stat().st_mode & 0o777 for name in ("made", "by-setup")] == [0o640] * 2
    ours = [root / "plan.json", root / "attempt-0", *(root / "attempt-0" / "logs").iterdir()]
    assert [each for each in ours if each.stat().st_mode & 0o077] == []
