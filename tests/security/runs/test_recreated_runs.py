"""A run's directory that its owner removes by hand, and of whose name somebody else makes another: nothing of that is
executed."""

from __future__ import annotations

import json
import os
import shutil
from pathlib import Path

import pytest
from driver import Cli, wait_for
from security.people import Machine, Person

from worldsize.agent.startup import prerequisites
from worldsize.agent.startup.prerequisites import unmet_dependency
from worldsize.common.atomic_files import access_of, write_json
from worldsize.plan.array import after_file
from worldsize.plan.run_paths import RunPaths
from worldsize.state.records import RunState
from worldsize.wings.node_commands.agent.command_watcher import poll_node_commands

WAITS = "import os, time\nopen('%s/up', 'w')\nwhile not os.path.exists('%s/go'): time.sleep(0.05)\n"
TAKE = """
import json, os, shutil, sys
model, root, mark = sys.argv[1:]
os.umask(0)
shutil.copytree(model, root, symlinks=True)
for name in ("result.json", "handle.json"):
    os.unlink(root + "/" + name)
shutil.rmtree(root + "/attempt-0/exit")
os.mkdir(root + "/attempt-0/exit")
plan = json.load(open(root + "/plan.json"))
json.dump({**plan, "run_id": os.path.basename(root), "argv": ["touch", mark]}, open(root + "/plan.json", "w"))
shutil.rmtree(root + "/inrank", ignore_errors=True)
os.mkdir(root + "/inrank")
open(root + "/inrank/sitecustomize.py", "w").write("open(%r, 'w')" % mark)
"""


class Place:
    """A sticky directory of runs, and what somebody else's program would write."""

    def __init__(self, machine: Machine, victim: Cli, attacker: Person) -> None:
        self.shared, self.box = machine.directory(0o1777), machine.directory(0o777)
        self.mark = os.path.join(self.box, "executed")
        self._victim, self._attacker = victim, attacker
        for each in (victim, attacker):
            each.environ["WORLDSIZE_TRUST_PROJECT"] = "1"
            each.write("worldsize.toml", '[compute.local]\nruns_dir = "%s"\n' % self.shared)
        self._model = os.path.realpath(attacker.path(attacker.run("-q", "--", "true")))

    def take(self, run: str) -> None:
        self._take(run, TAKE, self.mark)

    def take_as_succeeded(self, run: str) -> None:
        self._take(run, "import shutil, sys; shutil.copytree(*sys.argv[1:], symlinks=True)")

    def _take(self, run: str, script: str, *words: str) -> None:
        """Put there by us: the victim's own place keeps all others out, as long as it is there itself."""
        root = self.remove(run)
        made = os.path.join(self.box, run)
        self._attacker.python(script, self._model, made, *words)
        os.rename(made, root)

    def remove(self, run: str) -> str:
        root = os.path.realpath(self._victim.path(run))
        shutil.rmtree(root)
        return root

    def wait(self) -> str:
        """A script that is up, and goes on once there is `go`."""
        return self._victim.write("wait.py", WAITS % (self.box, self.box))

    def up(self) -> bool:
        return os.path.exists(os.path.join(self.box, "up"))

    def go(self) -> None:
        Path(self.box, "go").touch()


@pytest.fixture
def place(machine: Machine, victim: Cli, attacker: Person) -> Place:
    return Place(machine, victim, attacker)


def process_of(victim: Cli, run: str) -> int:
    pid: int = json.loads(victim.read(run, "handle.json"))["pid"]
    return pid


def test_a_run_that_waited(victim: Cli, place: Place) -> None:
    """Found by review: the queue started by name what lay there, and outlived the directory."""
    first = victim.submit("--", "python", place.wait())
    second = victim.submit("--after", first, "--", "true")
    wait_for(place.up)
    queue = process_of(victim, second)
    place.take(second)
    place.go()
    assert victim("wait", first).code == 0
    wait_for(lambda: not os.path.exists("/proc/%d" % queue))
    assert not os.path.exists(place.mark)


def test_a_queue_ends_with_its_directory(victim: Cli, place: Place) -> None:
    """Found by review: it waited on, and could not be cancelled any more."""
    first = victim.submit("--", "python", place.wait())
    second = victim.submit("--after", first, "--", "true")
    wait_for(place.up)
    queue = process_of(victim, second)
    shutil.rmtree(os.path.realpath(victim.path(second)))
    wait_for(lambda: not os.path.exists("/proc/%d" % queue))
    place.go()
    assert victim("wait", first).code == 0


def test_a_run_that_is_waited_for(victim: Cli, place: Place) -> None:
    """Found by review: the success of somebody else's run in its place was believed."""
    first = victim.submit("--", "python", place.wait())
    second = victim.submit("--after", first, "--", "touch", place.mark)
    wait_for(place.up)
    place.take_as_succeeded(first)
    place.go()
    assert victim("wait", second).code
    assert "%s to succeed, and that run is LOST" % first in victim("status", second).out
    assert not os.path.exists(place.mark)


@pytest.mark.skipif(os.geteuid() != 0, reason="only root gives directories away")
def test_a_run_that_a_batch_job_waited_for(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """There the scheduler waits, and the run only asks how the other one ended."""
    monkeypatch.setattr(prerequisites, "_LAG", 0.0)
    roots = [str(tmp_path / name) for name in ("first", "second")]
    for root in roots:
        os.mkdir(root)
    ended = {"state": RunState.SUCCEEDED, "reason": None, "exit_code": 0}
    write_json(RunPaths(roots[0]).result, {"summary": ended, "message": "", "failure": None})
    write_json(after_file(roots[1]), [{"run": "first", "roots": roots[:1], "any_end": False}])
    assert unmet_dependency(RunPaths(roots[1])) == ""
    os.chown(roots[0], 65534, 65534)
    assert unmet_dependency(RunPaths(roots[1])) == "first to succeed, and that run is LOST"


def test_a_run_whose_setup_takes_its_time(victim: Cli, place: Place) -> None:
    """Found by review: afterwards its ranks began with what somebody else had made."""
    lines = ["touch %s/up; until test -e %s/go; do sleep 0.05; done" % (place.box, place.box)]
    victim.write("job.yml", json.dumps({"command": "python -c 'print(1)'", "setup": lines}))
    run = victim.submit("job.yml")
    wait_for(place.up)
    conductor = process_of(victim, run)
    place.take(run)
    place.go()
    wait_for(lambda: not os.path.exists("/proc/%d" % conductor))
    assert not os.path.exists(place.mark)


@pytest.mark.skipif(os.geteuid() != 0, reason="only root gives directories away")
def test_commands_in_a_directory_of_somebody_elses(tmp_path: Path) -> None:
    """Found by review: an agent executed what lay there."""
    paths = RunPaths(str(tmp_path / "run"))
    os.makedirs(paths.attempt_dir)
    access = access_of(paths.root)
    assert poll_node_commands(paths, access) == set() and os.path.isdir(paths.errands)
    os.mkdir(os.path.join(paths.errands, "x"))
    assert poll_node_commands(paths, access) == {"x"}
    os.chmod(paths.root, 0o775)
    assert poll_node_commands(paths, access) == set(), "others can move a directory there that they can write to"
    os.chmod(paths.root, 0o755)
    os.chown(paths.root, 65534, 65534)
    assert poll_node_commands(paths, access) == set()
    shutil.rmtree(paths.root)
    assert poll_node_commands(paths, access) == set() and not os.path.exists(paths.root)
