"""Runs whose ranks start warm, and what may happen to them: each ends in a true state, and leaves no process."""

from __future__ import annotations

import json
import os
import signal
from pathlib import Path

import pytest
from driver import Cli, wait_for

SLOW = """
import os, time
with open(os.environ["MARKS"] + "/importing.tmp", "w") as file:
    file.write(str(os.getpid()))
os.rename(os.environ["MARKS"] + "/importing.tmp", os.environ["MARKS"] + "/importing")
while not os.path.exists(os.environ["MARKS"] + "/go"):
    time.sleep(0.01)
"""
JOB = """
command: python train.py
code: .
distribution: {type: pytorch, process_count_per_instance: 2}
environment_variables: {PYTHONPATH: %(modules)s, MARKS: %(marks)s}
preload: [slow_module]
"""


def way(cli: Cli, run: str) -> str | None:
    """How the ranks have started, if they were to be forked."""
    found = (each.get("start") for each in cli.events(run, 0) if each["event"] == "ranks_started")
    return next(found, None)


class SlowImport:
    """A run whose ranks are to be forked from a process that imports a slow module, and has begun to."""

    def __init__(self, cli: Cli, root: Path) -> None:
        self.marks = root / "marks"
        modules = root / "modules"
        for each in (self.marks, modules):
            each.mkdir()
        (modules / "slow_module.py").write_text(SLOW)
        cli.write("train.py", "import os\nprint('trained', os.environ['RANK'])\n")
        cli.write("job.yml", JOB % {"modules": modules, "marks": self.marks})
        self.cli, self.run = cli, cli.submit("job.yml")
        wait_for((self.marks / "importing").exists)
        self.preloader = int((self.marks / "importing").read_text())

    def go(self) -> None:
        (self.marks / "go").touch()

    def end(self) -> str:
        """The run's state, once it has ended."""
        self.cli("wait", self.run, "--timeout", "60")
        state: str = self.cli.status(self.run)["state"]
        return state

    def start(self) -> str | None:
        return way(self.cli, self.run)

    def notices(self) -> list[str]:
        return [each["text"] for each in self.cli.events(self.run, 0) if each["event"] == "notice"]

    def logs(self) -> list[str]:
        return [self.cli.read(self.run, "attempt-0", "logs", "rank-%05d.log" % rank) for rank in (0, 1)]


@pytest.fixture
def importing(cli: Cli, tmp_path: Path) -> SlowImport:
    return SlowImport(cli, tmp_path)


def test_ranks_start_warm_once_the_module_is_there(importing: SlowImport) -> None:
    importing.go()
    assert (importing.end(), importing.start()) == ("SUCCEEDED", "warm")
    assert importing.logs() == ["trained 0\n", "trained 1\n"]


def test_ranks_start_plainly_where_the_process_that_imports_is_killed(importing: SlowImport) -> None:
    os.kill(importing.preloader, signal.SIGKILL)
    assert (importing.end(), importing.start()) == ("SUCCEEDED", "plain")
    assert importing.notices() == ["ranks were started without preloaded modules: the process that preloads has ended"]
    assert importing.logs() == ["trained 0\n", "trained 1\n"]


def test_a_run_is_cancelled_while_its_modules_are_imported(importing: SlowImport) -> None:
    importing.cli.ok("cancel", importing.run)
    assert (importing.end(), importing.start()) == ("CANCELLED", None)


def test_the_agent_is_killed_while_modules_are_imported(importing: SlowImport) -> None:
    """What it leaves behind is found by the next command that looks at the run, as ranks are."""
    parent = int(Path("/proc/%d/stat" % importing.preloader).read_text().rpartition(") ")[2].split()[1])
    os.kill(parent, signal.SIGKILL)
    assert (importing.end(), importing.start()) == ("FAILED", None)
    assert importing.cli.status(importing.run)["reason"] == "NODE_FAILURE"


def run(cli: Cli, *words: str, preload: str = "[decimal]", start: str | None = "warm") -> str:
    """A run of train.py whose ranks have started in this way."""
    run_id = cli.run("-w", "1x2", *words, "--set", "preload=" + preload, "--", "python", "train.py")
    assert way(cli, run_id) == (None if preload == "off" else start)
    return run_id


@pytest.mark.parametrize("preload", ["[decimal]", "off"])
def test_a_rank_that_a_signal_ends_soon_after_a_warm_start(cli: Cli, preload: str) -> None:
    cli.write("train.py", "import os\nos.kill(os.getpid(), 11)\n")
    result = cli("run", "-w", "1x2", "--set", "preload=" + preload, "--", "python", "train.py")
    assert result.code == 139
    assert ("preload: off" in result.err) is (preload != "off"), result.err


ENVIRONMENT = ("--", "sh", "-c", "env | grep -v ^_= | sort")


def test_a_command_beside_the_ranks_has_the_environment_of_a_plain_start(cli: Cli) -> None:
    cli.write("train.py", "import os, time\nwhile not os.path.exists('outputs/go'): time.sleep(0.05)\n")
    found = []
    for preload in ("off", "[decimal]"):
        words = (
            "-w",
            "1x2",
            "--set",
            "preload=" + preload,
            "--set",
            "environment_variables.OF_THE_JOB=1",
            "--name",
            "t",
        )
        run = cli.submit(*words, "--", "python", "train.py")
        wait_for(lambda run=run: cli.has_begun(run))
        lines = cli.ok("exec", run, *ENVIRONMENT).out.replace(run, "RUN").splitlines()
        found.append(
            [line for line in lines if not line.startswith(("MASTER_PORT", "JAX_COORD", "SLURM_JOB_ID", "CCP_"))]
        )
        assert cli.ok("exec", run, "--", "python", "-c", "print('python')").out.endswith("python\n")
        Path(cli.path(run, "outputs", "go")).touch()
        cli("wait", run)
    assert found[0] == found[1] and any("OF_THE_JOB=1" in line for line in found[1])


def test_the_record_and_the_dry_run_say_how_ranks_start(cli: Cli) -> None:
    cli.write("train.py", "import numpy\n")
    cli.write("plain.py", "import json\n")
    texts = {
        "train.py": {"way": "warm", "reason": "train.py imports them", "modules": ["numpy"]},
        "plain.py": {
            "way": "plain",
            "reason": "plain.py imports no module at its top that is known to be safe",
            "modules": [],
        },
    }
    for script, wanted in texts.items():
        shown = cli.ok("run", "--dry-run", "-w", "1x2", "--", "python", script).out
        assert "# start: %s" % wanted["way"] in shown and str(wanted["reason"]) in shown
        assert json.loads(cli.read(cli.run("-w", "1x2", "--", "python", script), "record.json"))["start"] == wanted


def test_a_rank_that_is_left_behind_is_told_by_its_rank(cli: Cli) -> None:
    cli.write(
        "train.py",
        "import os, subprocess, sys\nif os.environ['RANK'] == '1':\n    subprocess.Popen(['sleep', '987'], env={})\n",
    )
    run_id = run(cli)
    (warning,) = cli.status(run_id)["warnings"]
    assert "rank 1" in json.dumps(warning) and "sleep 987" in json.dumps(warning), warning


def test_each_rank_sees_its_own_gpu(cli: Cli) -> None:
    cli.write("worldsize.toml", "[compute.local]\ntype = 'local'\ngpus_per_node = 2\n")
    cli.write("train.py", "import os\nprint(os.environ.get('CUDA_VISIBLE_DEVICES'))\n")
    for preload in ("off", "[decimal]"):
        run_id = run(cli, "--set", "visible_devices=true", preload=preload)
        logs = [cli.read(run_id, "attempt-0", "logs", "rank-%05d.log" % rank) for rank in (0, 1)]
        assert logs == ["0\n", "1\n"], preload


KEEPS = """
import os
from keeper import Keeper

class Finalized:
    def __del__(self):
        print("finalized", flush=True)

Keeper.kept = [Finalized()]  # a class is part of a cycle: what it has is only found by the last collection
"""


def test_what_a_preloaded_module_keeps_is_finalized(cli: Cli, tmp_path: Path) -> None:
    (tmp_path / "keeper.py").write_text("class Keeper:\n    pass\n")
    cli.write("train.py", KEEPS)
    for preload in ("off", "[keeper]"):
        path = "environment_variables.PYTHONPATH=%s" % tmp_path
        run_id = run(cli, "--set", path, preload=preload)
        assert cli.read(run_id, "attempt-0", "logs", "rank-00001.log") == "finalized\n", preload


def test_random_hashes_are_left_random(cli: Cli) -> None:
    cli.write("train.py", "print(hash('a'))\n")
    run_id = run(cli, "--set", "environment_variables.PYTHONHASHSEED=random", start="plain")
    logs = [cli.read(run_id, "attempt-0", "logs", "rank-%05d.log" % rank) for rank in (0, 1)]
    assert logs[0] != logs[1]
    assert "PYTHONHASHSEED is random" in json.dumps(cli.events(run_id, 0))
