"""mypy --strict on a user's file: right uses of every public name pass, wrong ones are errors of their lines."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

import worldsize

ROOT = Path(__file__).resolve().parents[4]
RIGHT = """
from __future__ import annotations

import worldsize
from worldsize import (
    AmlTokenConfiguration, AssetTypes, CommandJob, Data, Input, ManagedIdentityConfiguration, MLClient, MpiDistribution,
    NotFound, Output, PyTorchDistribution, RankInfo, RayDistribution, Run, RunArray, RunFailed, RunState,
    TensorFlowDistribution, UsageError, UserIdentityConfiguration, WorldsizeError, __version__, command, load_job, log,
    once_per_node, open_array, open_run, rank_info, shard, submit,
)
from worldsize.constants import InputOutputModes
from worldsize.entities import CommandJobLimits, Environment, JobResourceConfiguration

version: str = __version__
job: CommandJob = command(
    code="./src",
    command="python train.py",
    inputs={"data": Input(type=AssetTypes.URI_FOLDER, path="data", mode=InputOutputModes.DOWNLOAD), "lr": 0.1,
            "table": Data(name="table", path="data")},
    outputs={"model": Output(type=AssetTypes.URI_FOLDER)},
    environment=Environment(conda_file="conda.yml"),
    distribution=PyTorchDistribution(process_count_per_instance=4),
    identity=ManagedIdentityConfiguration(client_id="x"),
    instance_count=2,
    grace=5,
    slurm={"partition": "gpu"},
)
job.inputs["lr"] = 0.2
job.distribution = {"type": "PyTorch"}
job.distribution = MpiDistribution()
job.distribution = TensorFlowDistribution(worker_count=2)
job.distribution = RayDistribution(port=6379)
job.resources = JobResourceConfiguration(instance_count=2)
job.limits = CommandJobLimits(timeout=60)
job.identity = UserIdentityConfiguration()
job.identity = AmlTokenConfiguration()
job.instance_count = 3
job.set_limits(timeout=5)
run: Run = submit(job)
state: str = run.wait(timeout=5, check=True)
ended: bool = run.status in RunState.FINAL
text: str = run.logs(rank=0)
model: str = run.outputs["model"].path
runs: RunArray = submit(load_job("job.yml"), matrix={"lr": [0.1, 0.01]}, after=[run, "other"])
first: Run = runs[0]
some: list[Run] = runs[1:]
again: Run = open_run()
all_of: RunArray = open_array("id")
MLClient.from_config().jobs.create_or_update(job, experiment_name="x")
me: RankInfo = rank_info()
half: int = me.world_size // 2
with once_per_node() as mine:
    print("first" if mine else "")


@once_per_node()
def unpack(name: str) -> int:
    return len(name)


count: int | None = unpack("x")
log(step=1, loss=0.5)
log({"train/loss": 0.5}, step=1)
one: list[int] = shard([1, 2])
x, y = shard([1], "ab", dim=0)
length: int = len(y)
try:
    run.wait(check=True)
except RunFailed as error:
    code: int = error.exit_code
except (NotFound, UsageError, WorldsizeError) as error:
    print(error.what, error.where, error.hint)
worldsize.log(step=1, loss=1)
"""
WRONG = {
    "worldsize.sumbit(job)": "attr-defined",
    'worldsize.command(comand="x")': "arg-type",
    'worldsize.command(command="x", instance_count="two")': "arg-type",
    "job.instnace_count = 2": "attr-defined",
    'worldsize.submit("job.yml").wiat()': "attr-defined",
    'worldsize.submit("job.yml", wrold="2x2")': "call-overload",
    "worldsize.open_run(7)": "arg-type",
    'worldsize.Input(pth="x")': "call-arg",
    'worldsize.log(loss="low")': "arg-type",
    "rank: str = worldsize.rank_info().rank": "assignment",
    "state: int = worldsize.open_run().status": "assignment",
    "from worldsize.entities import Enviroment": "attr-defined",
}


def test_every_public_name_is_used_below() -> None:
    assert [name for name in worldsize.__all__ if not re.search(r"\b%s\b" % name, RIGHT)] == []
    assert (ROOT / "src" / "worldsize" / "py.typed").exists()


@pytest.mark.slow
@pytest.mark.exhaustive
@pytest.mark.timeout(1200)
def test_right_uses_pass_and_wrong_ones_are_told(tmp_path: Path) -> None:
    """What mypy finds in worldsize itself is not told, as of an installed package."""
    (tmp_path / "right.py").write_text(RIGHT)
    (tmp_path / "wrong.py").write_text("import worldsize\n\njob = worldsize.command()\n" + "\n".join(WRONG) + "\n")
    (tmp_path / "mypy.ini").write_text("[mypy]\nstrict = true\n[mypy-worldsize.*]\nfollow_imports = silent\n")
    done = subprocess.run(
        [sys.executable, "-m", "mypy", "--config-file", "mypy.ini", "--no-error-summary", "right.py", "wrong.py"],
        cwd=tmp_path,
        env={**os.environ, "MYPYPATH": str(ROOT / "src")},
        capture_output=True,
        text=True,
        check=False,
    )
    found = re.findall(r"^(\w+)\.py:(\d+): error: .*\[([\w-]+)\]$", done.stdout, re.MULTILINE)
    expected = [("wrong", str(line), code) for line, code in enumerate(WRONG.values(), 4)]
    assert sorted(set(found)) == sorted(expected), done.stdout + done.stderr
