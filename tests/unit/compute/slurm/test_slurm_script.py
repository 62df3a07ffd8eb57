"""The batch script: pure text, and what bash makes of it. srun is a stand-in here that starts one task per node."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from worldsize.compute.slurm.compute import SlurmCompute
from worldsize.compute.slurm.options import sbatch_options
from worldsize.compute.slurm.script import BatchScriptParts, pack, render
from worldsize.jobspec.config.config import ComputeSettings
from worldsize.jobspec.job import Job
from worldsize.plan.plan import ArrayElement, Plan, node_major_layout
from worldsize.plan.run_paths import RunPaths
from worldsize.service.submission.run_directory import embedded_files

pytestmark = pytest.mark.heavy

RUN_ID = "20261121-103158-417k3f"
SRUN = """\
#!/bin/bash
echo "$@" >>"$SAID"
nodes=1
for word; do
    case $word in --nodes=*) nodes=${word#*=} ;; esac
done
while [[ $1 == -* ]]; do shift; done
for ((node = 0; node < nodes; node++)); do
    SLURM_NODEID=$node "$@" &
    tasks+=($!)
done
code=0
for task in "${tasks[@]}"; do wait "$task" || code=$?; done
exit $code
"""


def plan_of(command: str = "true", nodes: int = 2, processes: int = 1, **changes: Any) -> Plan:
    argv = ("bash", "-c", command)
    return Plan(RUN_ID, "train", "lab", 0.0, 0, node_major_layout(nodes, processes), argv, {})._replace(**changes)


class Place:
    """A shared directory, and a login node's view of it."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self.runs = root / "it's shared" / "runs"
        self.runs.mkdir(parents=True)
        self.home = root / "my home"
        self.code = root / "the code"
        self.code.mkdir()
        (self.code / "hello.txt").write_text("hello")
        self.bin = root / "bin"
        self.bin.mkdir()
        (self.bin / "srun").write_text(SRUN)
        (self.bin / "srun").chmod(0o755)

    def text(self, plan: Plan, **changes: Any) -> str:
        paths = RunPaths(str(self.runs / plan.run_id))
        job = Job(command="true", code=str(self.code))
        files = {name: pack(data) for name, data in embedded_files(job, plan, str(self.home)).items()}
        script = BatchScriptParts(
            plan, paths, sbatch_options({}, plan), sys.executable, str(self.code), str(self.home / "runs"), files
        )
        return render(script._replace(**changes))

    def bash(self, text: str, job: int = 7, **environ: str) -> subprocess.CompletedProcess[str]:
        path = self.root / "slurm_script"
        path.write_text(text)
        said = str(self.root / "srun.txt")
        found = {"PATH": "%s:/usr/bin:/bin" % self.bin, "SLURM_JOB_ID": str(job), "SAID": said}
        environ = {**found, "SLURM_JOB_NUM_NODES": "1", **environ}
        return subprocess.run(["bash", str(path)], env=environ, capture_output=True, text=True, timeout=60)


@pytest.fixture
def place(tmp_path: Path) -> Place:
    return Place(tmp_path)


def test_what_is_large_is_packed_once(tmp_path: Path) -> None:
    compute = SlurmCompute(ComputeSettings("lab", type="slurm"), str(tmp_path), {})
    small, large = b"small", bytes(1 << 17)
    packed = compute._packed(large)
    assert compute._packed(small) == pack(small) and packed == pack(large)
    (kept,) = (tmp_path / "cache").iterdir()
    kept.write_bytes(b"kept")
    assert compute._packed(large) == b"kept" and compute._packed(large + b"more") == pack(large + b"more")


def test_the_same_plan_gives_the_same_bytes(place: Place) -> None:
    assert place.text(plan_of()) == place.text(plan_of())


def test_it_is_a_batch_script_within_slurms_limit(place: Place) -> None:
    text = place.text(plan_of(nodes=64, processes=8))
    lines = text.splitlines()
    assert lines[:4] == [
        "#!/bin/bash",
        "#SBATCH --job-name=" + RUN_ID,
        "#SBATCH --nodes=64",
        "#SBATCH --ntasks-per-node=8",
    ]
    assert len(text) < 4 << 20 and max(map(len, lines)) < 500
    assert subprocess.run(["bash", "-n"], input=text, text=True).returncode == 0


def test_a_first_node_on_which_slurm_has_made_the_missing_directories_starts_nothing(place: Place) -> None:
    """Slurm 24.11 does that for the job's output. It took the script for one that was submitted by hand."""
    made = place.runs / RUN_ID
    made.mkdir(mode=0o700)
    (made / "batch.log").touch()
    done = place.bash(place.text(plan_of("touch %s/started" % place.root)))
    assert done.returncode == -53, "as Slurm 22.05 ends a job whose output it cannot open"
    assert [path.name for path in place.runs.iterdir()] == [RUN_ID] and not (place.root / "started").exists()


def test_by_hand_it_makes_its_run_and_runs_it(place: Place) -> None:
    both = "until test -e outputs/0 && test -e outputs/1; do sleep 0.02; done"
    command = "cat hello.txt; touch outputs/$RANK; %s; exit $((RANK * 3))" % both
    done = place.bash(place.text(plan_of(command)))
    assert done.returncode == 3, done
    run = place.runs / (RUN_ID + "-7")
    assert sorted(path.name for path in (run / "outputs").iterdir()) == ["0", "1"]
    assert (run / "attempt-0" / "logs" / "rank-00001.log").read_text() == "hello"
    assert json.loads((run / "plan.json").read_text())["run_id"] == run.name
    handle = {"type": "slurm", "job": "7", "run_id": run.name, "signal": None, "python": sys.executable}
    assert json.loads((run / "handle.json").read_text()) == handle
    assert (place.home / "runs" / run.name).resolve() == run.resolve()
    assert (run.stat().st_mode & 0o777, (run / "plan.json").stat().st_mode & 0o777) == (0o700, 0o600)
    assert not (place.code / "outputs").exists()


def test_the_same_script_again_is_another_run(place: Place) -> None:
    text = place.text(plan_of("pwd"))
    assert place.bash(text, 7).returncode == place.bash(text, 8).returncode == 0
    assert sorted(path.name for path in place.runs.iterdir()) == [RUN_ID + "-7", RUN_ID + "-8"]


def attempts(place: Place) -> list[str]:
    (run,) = place.runs.iterdir()
    return [(each / "logs" / "rank-00000.log").read_text() for each in sorted(run.glob("attempt-*"))]


def test_started_again_it_is_the_next_attempt(place: Place) -> None:
    text = place.text(plan_of("echo $WORLDSIZE_ATTEMPT; exit $((1 - WORLDSIZE_ATTEMPT))", nodes=1))
    assert place.bash(text).returncode == 1
    assert place.bash(text, SLURM_RESTART_COUNT="1").returncode == 0
    assert attempts(place) == ["0\n", "1\n"]


def test_a_run_that_has_ended_is_not_started_again(place: Place) -> None:
    """Slurm puts a job back whose end it has not heard of, when its node fails then."""
    text = place.text(plan_of("echo $WORLDSIZE_ATTEMPT; exit $((RANK * 0))"))
    assert place.bash(text).returncode == place.bash(text, SLURM_RESTART_COUNT="1").returncode == 0
    assert attempts(place) == ["0\n"]


@pytest.mark.exhaustive(unless=["cancel.json"])
@pytest.mark.parametrize("name", ["result.json", "cancel.json"])
def test_what_was_given_up_is_not_started_again(place: Place, name: str) -> None:
    text = place.text(plan_of("echo $WORLDSIZE_ATTEMPT; exit 3", nodes=1))
    assert place.bash(text).returncode == 3
    (run,) = place.runs.iterdir()
    (run / name).write_text("{}")
    done = place.bash(text, SLURM_RESTART_COUNT="1")
    assert done.returncode == 1 and "has ended, and is not started again" in done.stderr
    assert attempts(place) == ["0\n"]


def test_a_run_that_is_ready_is_used_by_the_first_job_alone(place: Place) -> None:
    text = place.text(plan_of("echo here"))
    place.bash(text, 7)
    ready = place.runs / RUN_ID
    (place.runs / (RUN_ID + "-7")).rename(ready)
    (ready / "job").unlink()
    shutil.rmtree(ready / "attempt-0")
    (ready / "plan.json").write_text(plan_of("echo there").to_json())
    assert place.bash(text, 8).returncode == 0
    assert (ready / "attempt-0" / "logs" / "rank-00000.log").read_text() == "there\n"
    assert os.readlink(ready / "job") == "8"
    assert place.bash(text, 9).returncode == 0
    assert (place.runs / (RUN_ID + "-9")).is_dir()


def test_setup_comes_first_and_what_it_exports_reaches_the_ranks(place: Place) -> None:
    setup = ("export COLOUR=blue", "if true; then\n    SHAPE=round\nfi", "export SHAPE", "cat hello.txt")
    done = place.bash(place.text(plan_of("echo $COLOUR $SHAPE > outputs/$RANK", setup=setup)))
    assert done.returncode == 0 and "hello" in done.stdout
    assert (place.runs / (RUN_ID + "-7") / "outputs" / "1").read_text() == "blue round\n"


def test_a_setup_line_that_fails_ends_it_and_is_named(place: Place) -> None:
    done = place.bash(place.text(plan_of(setup=("true", "ls /no/such/place", "echo not reached"))))
    assert done.returncode == 2
    assert "worldsize: setup failed with code 2: ls /no/such/place" in done.stderr
    assert "not reached" not in done.stdout and not (place.root / "srun.txt").exists()


def test_which_setup_line_is_executed_can_be_seen(place: Place) -> None:
    run = place.runs / (RUN_ID + "-7")
    seen = 'cat "$RUN/batch.log.step"'
    assert seen in place.bash(place.text(plan_of(setup=(seen, "exit 0")))).stdout
    assert (run / "batch.log.step").read_text() == "exit 0\n" and not (place.root / "srun.txt").exists()
    shutil.rmtree(run)
    assert place.bash(place.text(plan_of(setup=(seen, "true")))).returncode == 0
    assert not (run / "batch.log.step").exists()


def test_an_element_of_an_array_finds_its_run_by_its_number(place: Place) -> None:
    plan = plan_of("echo $WORLDSIZE_RUN_ID", run_id=RUN_ID + "_0", array=ArrayElement(0, 3, RUN_ID))
    text = place.text(plan)
    missing = place.bash(text, SLURM_ARRAY_TASK_ID="2")
    assert missing.returncode == 1 and RUN_ID + "_2" in missing.stderr
    run = place.runs / (RUN_ID + "_2")
    paths = RunPaths(str(run))
    run.mkdir()
    for directory in paths.directories():
        os.makedirs(directory, exist_ok=True)
    (run / "plan.json").write_text(plan._replace(run_id=run.name).to_json())
    (run / "agent.pyz").write_bytes(embedded_files(Job(command="x"), plan, str(place.home))["agent.pyz"])
    assert place.bash(text, SLURM_ARRAY_TASK_ID="2").returncode == 0
    with open(paths.rank_log(0)) as file:
        assert file.read() == run.name + "\n"


def test_a_name_is_no_command(place: Place) -> None:
    plan = plan_of("true", name="a\ntouch $PWD/broken\r; `touch broken`")
    assert place.bash(place.text(plan)).returncode == 0
    assert not list(place.root.glob("**/broken"))
