"""A run's directory that somebody else has made, and that belongs to the victim by now: a copy, or out of an archive.
It says which processes are to be ended; those of the victim's other runs are not."""

from __future__ import annotations

import json
import os
import shutil
import signal
import socket
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from driver import Cli, wait_for

from worldsize.agent.posix import processes
from worldsize.plan.handle import handle_of, read_handle
from worldsize.plan.run_paths import RunPaths

OTHER = "20261123-120000-000aaa"
SLEEP = "import pathlib, time\nwhile not pathlib.Path('go').exists(): time.sleep(0.05)\n"


@pytest.fixture
def cli(tmp_path: Path) -> Cli:
    return Cli(str(tmp_path))


@pytest.fixture
def run(cli: Cli) -> Iterator[str]:
    cli.write("sleep.py", SLEEP)
    run = cli.submit("-w", "2x1", "--", sys.executable, "sleep.py")
    wait_for(lambda: cli.has_begun(run))
    yield run
    Path(cli.path(run, "code", "go")).touch()
    assert cli("wait", run).code == 0, cli("status", run)


def copy_of(cli: Cli, run: str, name: str, place: str = "unpacked", **handle: object) -> str:
    """What has ended, as far as it says, in a directory of that name."""
    root = os.path.join(cli.root, place, name)
    shutil.copytree(cli.path(cli.run("-q", "--", "true")), root, symlinks=True)
    os.unlink(os.path.join(root, "result.json"))
    shutil.rmtree(os.path.join(root, "attempt-0", "exit"))
    os.mkdir(os.path.join(root, "attempt-0", "exit"))
    said = {"type": "local", "host": socket.gethostname(), "pid": 4_000_000, "start_time": 1, "run_id": run, **handle}
    Path(root, "handle.json").write_text(json.dumps(said))
    for each in (root, *Path(root, "attempt-0").rglob("*")):
        os.utime(each, (1, 1))  # nobody has written for long
    return root


def look(cli: Cli, root: str) -> None:
    for words in (("status", root), ("logs", root), ("cancel", root), ("cancel", "--now", root)):
        shown = cli(*words, timeout=60)
        assert "Traceback" not in shown.err


@pytest.mark.exhaustive(unless=["20261123-120000-000aaa-unpacked"])
@pytest.mark.parametrize(("name", "place"), [(None, "unpacked"), (OTHER, "unpacked"), (OTHER, "home/runs")])
def test_the_ranks_of_another_run(cli: Cli, run: str, name: str | None, place: str) -> None:
    """Found by review: what carried the run's id was ended, whoever had named it."""
    look(cli, copy_of(cli, run, name or run, place))


def test_what_is_refused_of_a_copy(cli: Cli, run: str) -> None:
    """Found by review: it named any job of a scheduler's, and that was cancelled or entered."""
    root = copy_of(cli, run, OTHER, type="slurm", job="7", run_id=OTHER)
    for words in (("cancel", root), ("requeue", root), ("exec", root, "--", "true"), ("shell", root), ("rerun", root)):
        refused = cli(*words)
        assert refused.code == 2 and "it is a copy, or was started from another WORLDSIZE_HOME" in refused.err, refused
    cli("status", root)
    assert not os.path.exists(os.path.join(root, "result.json"))


def test_a_run_of_another_home(cli: Cli, run: str) -> None:
    """One may look at it, and do more where one says that it is one's own."""
    root = os.path.realpath(cli.path(run))
    cli.environ["WORLDSIZE_HOME"], home = os.path.join(cli.root, "elsewhere"), cli.environ["WORLDSIZE_HOME"]
    assert "RUNNING" in cli.ok("status", root).out and cli("exec", root, "--", "true").code == 2
    cli.ok("config", "trust", root)
    assert cli("exec", root, "--", "true").code == 0
    cli.environ["WORLDSIZE_HOME"] = home


def test_an_element_that_is_a_link_to_another_run(cli: Cli, run: str) -> None:
    """Found by review: a look at the array wrote the end of the run that its link led to, and removed its secrets."""
    for place in ("unpacked", "home/runs"):
        array = os.path.join(cli.root, place, OTHER)
        os.makedirs(array)
        os.symlink(os.path.realpath(cli.path(run)), array + "/" + OTHER + "_0")
        told = {"version": 1, "run_id": OTHER, "name": "n", "compute": "local", "created": 1.0, "values": []}
        Path(array, "array.json").write_text(json.dumps({**told, "nodes": 1, "ranks": 1, "elements": 1, "at_once": 1}))
        handle = {"type": "local", "host": socket.gethostname(), "pid": 4_000_000, "start_time": 1, "queue": "x"}
        own = json.loads(cli.read(run, "handle.json"))
        for more in ({}, {"pid": own["pid"], "start_time": own["start_time"]}):
            Path(array, "handles.json").write_text(json.dumps([{**handle, "run_id": OTHER + "_0", **more}]))
            for words in (("status", array), ("list",), ("wait", array), ("cancel", "--now", array)):
                assert "Traceback" not in cli(*words, timeout=60).err
        assert cli.status(run)["state"] == "RUNNING" and not os.path.exists(cli.path(run, "result.json"))


def test_the_conductor_of_another_run(cli: Cli, run: str) -> None:
    told = json.loads(cli.read(run, "handle.json"))
    look(cli, copy_of(cli, run, run, pid=told["pid"], start_time=told["start_time"]))


def test_the_queue_of_another_array(cli: Cli, run: str) -> None:
    told = json.loads(cli.read(run, "handle.json"))
    queue = os.path.realpath(cli.path(run))
    look(cli, copy_of(cli, run, run, pid=told["pid"], start_time=told["start_time"], queue=queue))


@contextmanager
def session(argv: list[str]) -> Iterator[subprocess.Popen[bytes]]:
    with subprocess.Popen(argv, start_new_session=True, stdout=subprocess.PIPE) as process:
        try:
            yield process
        finally:
            process.kill()


def test_processes_that_are_of_no_run(cli: Cli) -> None:
    """Found by review: whatever belonged to a session that had begun then."""
    program = "import os, time\nif os.fork(): os._exit(0)\nprint(flush=True); time.sleep(600)"
    name = OTHER
    with session([sys.executable, "-c", program]) as leader:
        started = processes.start_time(leader.pid)
        assert leader.stdout is not None and leader.stdout.readline() == b"\n"
        child = next(pid for pid in processes_of_session(leader.pid) if pid != leader.pid)
        try:
            leader.wait()
            look(cli, copy_of(cli, name, name, pid=leader.pid, start_time=started))
            assert processes.start_time(child) is not None
            with open("/proc/%d/stat" % child) as file:
                assert file.read().rpartition(")")[2].split()[0] not in "ZX"
        finally:
            os.kill(child, signal.SIGKILL)


def processes_of_session(leader: int) -> list[int]:
    found = []
    for name in filter(str.isdigit, os.listdir("/proc")):
        fields = processes.stat_fields(int(name))
        if fields is not None and int(fields[3]) == leader:
            found.append(int(name))
    return found


ODD = [
    {"run_id": "20261123-120000-bbbbbb"}, {"pid": "1"}, {"pid": True}, {"start_time": 1.5}, {"host": 3}, {"type": None},
    {"job": "--user=root"}, {"job": "7,7"}, {"job": ["7"]}, {"job": "7 8"}, {"queue": 1},
]  # fmt: skip


@pytest.mark.parametrize("said", ODD, ids=repr)
def test_words_that_no_compute_says(tmp_path: Path, said: dict[str, object]) -> None:
    """Found by review: an option of scancel's in place of a job's number."""
    paths = RunPaths(str(tmp_path / "20261123-120000-aaaaaa"))
    with pytest.raises(ValueError, match=r"handle|compute|number"):
        handle_of(paths, {"type": "slurm", "job": "7", "run_id": paths.run_id, **said})


@pytest.mark.parametrize("job", ["7", "7_12", 7])
def test_words_that_a_compute_says(tmp_path: Path, job: object) -> None:
    paths = RunPaths(str(tmp_path / "20261123-120000-aaaaaa"))
    os.mkdir(paths.root)
    said = {"type": "slurm", "job": job, "run_id": paths.run_id, "queue": "/elsewhere"}
    Path(paths.handle).write_text(json.dumps(said))
    assert read_handle(paths) == {**said, "run_dir": paths.root, "queue": paths.root}
