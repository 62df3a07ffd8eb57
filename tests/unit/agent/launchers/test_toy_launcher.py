"""A launcher is a module and a row of facts: a toy one, unknown to every layer, starts a run of 2 x 2 ranks."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

SOURCE = Path(__file__).resolve().parents[4] / "src"

LAUNCHER = '''
import os

from worldsize.agent.launchers.base import Launcher
from worldsize.agent.launchers.launcher_failures import launcher_failure
from worldsize.agent.launchers.rank_file import write_rank_files

START = """for rank in $RANKS; do (. "$0/rank-$rank"; exec "$@") & pids="$pids $!"; done
for pid in $pids; do wait $pid || exit $?; done"""


class ToyLauncher(Launcher):
    """One shell per node, which starts the node's ranks by their files."""

    def prepare(self, launch):
        os.makedirs(launch.paths.launch_dir, 0o700, exist_ok=True)
        write_rank_files(launch.ranks(), launch.plan.launcher, {}, launch.paths, launch.plan.ranks_umask)
        return {**launch.environ, "TOY": "prepared"}

    def processes(self, launch):
        process = launch.node_process()
        environment = {**launch.environ, "RANKS": " ".join(map(str, process.ranks))}
        argv = ("sh", "-c", START, launch.paths.launch_dir, *launch.plan.argv)
        return [process._replace(argv=argv, environment=environment)]

    def failures(self, end):
        return [launcher_failure(end)]


LAUNCHER = ToyLauncher()
'''

KIND = """
from typing import NamedTuple

from worldsize.jobspec.distributions.base import Arrangement, processes_key
from worldsize.plan.rank_layout import node_major_layout


class Toy(NamedTuple):
    process_count_per_instance: int = 1
    type: str = "toy"

    @staticmethod
    def keys():
        return {"process_count_per_instance": processes_key()}

    def world_size(self, instances):
        return instances * self.process_count_per_instance

    def arrange(self, instances):
        return Arrangement(node_major_layout(instances, self.process_count_per_instance), "toy")
"""

PROGRAM = """
import sys

from worldsize.cli.main import main
from worldsize.plan.launchers import LAUNCHERS, LauncherFacts

LAUNCHERS["toy"] = LauncherFacts("toy_launcher", hostfile=True, sets_umask=True, title="toys {first} to {last}")
code = main(sys.argv[1:])
sys.stdout.flush()
sys.exit(code)
"""

JOB = """
command: |
    echo "$RANK of $WORLD_SIZE on $NODE_RANK, $TOY: $(head -n 1 $WORLDSIZE_HOSTFILE)" > outputs/told-$RANK
    exit $CODE
environment_variables: {CODE: "0"}
distribution: {type: toy, process_count_per_instance: 2}
resources: {instance_count: 2}
"""


@pytest.fixture
def toys(tmp_path: Path) -> Path:
    (tmp_path / "toy-1.dist-info").mkdir()
    files = {
        "toy_launcher.py": LAUNCHER,
        "toy_kind.py": KIND,
        "with_toy.py": PROGRAM,
        "job.yml": JOB,
        "toy-1.dist-info/METADATA": "Name: toy\nVersion: 1\n",
        "toy-1.dist-info/entry_points.txt": "[worldsize.distributions]\ntoy = toy_kind:Toy\n",
    }
    for name, text in files.items():
        (tmp_path / name).write_text(text)
    return tmp_path


def worldsize(toys: Path, *words: str) -> subprocess.CompletedProcess[str]:
    environ = {**os.environ, "PYTHONPATH": "%s:%s" % (SOURCE, toys), "WORLDSIZE_HOME": str(toys / "home")}
    argv = [sys.executable, str(toys / "with_toy.py"), *words]
    return subprocess.run(argv, cwd=toys, env=environ, capture_output=True, text=True, timeout=100)


def run_directory(toys: Path) -> Path:
    (found,) = (path.parent for path in (toys / "home").rglob("plan.json"))
    return found


def test_a_toy_launcher_starts_a_run_from_end_to_end(toys: Path) -> None:
    done = worldsize(toys, "run", "job.yml")
    assert done.returncode == 0, done.stdout + done.stderr
    run = run_directory(toys)
    told = [(run / "outputs" / ("told-%d" % rank)).read_text() for rank in range(4)]
    host = os.uname().nodename.partition(".")[0]
    assert told == ["%d of 4 on %d, prepared: %s slots=2\n" % (rank, rank // 2, host) for rank in range(4)]
    logs = {path.name for path in (run / "attempt-0" / "logs").iterdir()}
    assert {"toy-0000.log", "toy-0001.log", "rank-00003.log"} <= logs


def test_a_toy_launchers_failure_is_the_runs(toys: Path) -> None:
    done = worldsize(toys, "run", "job.yml", "--set", "environment_variables.CODE=7")
    assert done.returncode == 7
    assert "toy on node" in done.stdout + done.stderr and "ended with code 7" in done.stdout + done.stderr


def test_a_preview_shows_a_toy_launchers_processes(toys: Path) -> None:
    done = worldsize(toys, "run", "job.yml", "--dry-run")
    assert done.returncode == 0 and "launcher toy" in done.stdout
    assert "# toys 0 to 1\nsh -c" in done.stdout and "# toys 2 to 3\nsh -c" in done.stdout
