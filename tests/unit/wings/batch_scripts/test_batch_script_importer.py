"""A job file that `import` writes is the script itself: the same plan, the same words to sbatch, the same messages."""

from __future__ import annotations

import os
import pathlib
from typing import Any

import pytest

from worldsize.compute.base import CheckResult, ComputeFacts
from worldsize.compute.slurm.options import script_options
from worldsize.jobspec.dump import dump_job
from worldsize.jobspec.job import Job
from worldsize.jobspec.overrides import with_world
from worldsize.jobspec.reading.job_file import parse_job
from worldsize.jobspec.reading.set_option import apply_overrides
from worldsize.plan.plan import Plan
from worldsize.plan.run_paths import RunPaths
from worldsize.service.submission.make_plan import make_plan
from worldsize.wings.batch_scripts.command import job_text
from worldsize.wings.batch_scripts.preflight import check as check_batch
from worldsize.wings.batch_scripts.script.importer import import_script
from worldsize.wings.batch_scripts.script.job import load_script, read_script

SCRIPTS = {path.name: path for path in pathlib.Path(__file__).with_name("public_styles").glob("*/*.slurm")}
NAMES = sorted(SCRIPTS)
PATHS = RunPaths("/runs/20260101-000000-000abc")
LOCAL = ComputeFacts(None, 8, shared_host=True)
CLUSTER = ComputeFacts(8)
OF_A_CLUSTER = """#!/bin/bash -l
#SBATCH --job-name=ddp
#SBATCH --nodes=2
#SBATCH --ntasks-per-node=2
#SBATCH --gres=gpu:a100:2
#SBATCH --cpus-per-task=4
#SBATCH --time=00:10:00
#SBATCH --signal=B:USR1@120
#SBATCH --output=%x.out
#SBATCH --mail-type=END --no-requeue --exclusive -p gpu,long
#SBATCH -A team --qos=high -C "a100&ib" -x bad[1-2] --reservation=r --mem=64G -d afterok:12
module purge
export WORLD_SIZE=$(($SLURM_NNODES * $SLURM_NTASKS_PER_NODE))
cd $SLURM_SUBMIT_DIR
srun python -u train.py --data ~/data/*.txt
"""


def imported(text: str, path: str | None = "job.slurm") -> str:
    script, _ = read_script("job.slurm", text)
    return job_text(import_script(script, "job.slurm", path), "job.slurm")


@pytest.fixture
def project(tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch) -> pathlib.Path:
    for name in ("train.py", "main.py"):
        (tmp_path / name).write_text("")
    monkeypatch.chdir(tmp_path)
    return tmp_path


def behaviour(job: Job) -> list[Any]:
    """All that becomes of a job on this machine and on a cluster, with the messages about it."""
    local, cluster = plans(job)
    found: list[CheckResult] = [*check_batch(job, local), *check_batch(job, cluster)]
    return [local, cluster, options(job), found, job.display_name, job.code, job.count, job.at_once]


def plans(job: Job) -> tuple[Plan, Plan]:
    return make_plan(job, LOCAL, "local", PATHS, 1.5, ()), make_plan(job, CLUSTER, "slurm", PATHS, 1.5, ())


def options(job: Job) -> dict[str, str | None]:
    """As sbatch gets them, under a compute with defaults of its own."""
    return dict(script_options({"partition": "main", "time": "3", "qos": "low"}, 8, job, plans(job)[1]))


def same(text: str) -> None:
    pathlib.Path("job.slurm").write_text(text)
    script = load_script("job.slurm", os.getcwd()).job
    named = parse_job(imported(text), "job.yml")
    assert behaviour(named.job) == behaviour(script)
    assert named.job.batch_script == text
    inline = parse_job(imported(text, None), "job.yml").job
    inline = inline._replace(batch_source="job.slurm", display_name=script.display_name)
    assert behaviour(inline) == behaviour(script)
    again = parse_job(dump_job(named.job), "/runs/r/job.yml").job
    assert again == named.job._replace(source="/runs/r/job.yml", batch_source="/runs/r/job.yml: batch_script")


@pytest.mark.parametrize("name", NAMES)
def test_scripts_of_public_styles(project: pathlib.Path, name: str) -> None:
    same(SCRIPTS[name].read_text())


@pytest.mark.parametrize(
    "text",
    [
        OF_A_CLUSTER,
        "#!/bin/bash\n#SBATCH --chdir=~/src\n#SBATCH -w n[1-3]\nsrun ./a\n",
        "#!/bin/bash\n#SBATCH -D /elsewhere --requeue --no-requeue\nsrun ./a\n",
        "#!/bin/bash\n#SBATCH -J '#!x' -N 02 --ntasks-per-node=02\nsrun ./a\n",
        "#!/bin/bash\n#SBATCH --array=0-2%20000 -N 1\nsrun ./a\n",
        "#!/bin/bash\n#SBATCH -N2 --gpus=4 --ntasks-per-gpu=1\nsrun ./a\n",
        "#!/bin/bash\n#SBATCH -N1 --ntasks-per-node=1\nsrun -n 4 ./wide\n",
        "#!/bin/bash\n#SBATCH -N2\nexport WORLD_SIZE=16\nsrun python train.py\n",
        "#!/bin/bash\necho '${{inputs.x}}' \t \nsrun ./a \\\n  b\n\n\n",
        "#!/bin/bash\n#SBATCH -t 5\n\tsrun ./\udcff\n",
    ],
)
def test_scripts_that_are_odd(project: pathlib.Path, text: str) -> None:
    pathlib.Path("job.slurm").write_bytes(b"")
    if "\udcff" in text:
        pathlib.Path("job.slurm").write_bytes(text.encode("utf-8", "surrogateescape"))
        inline = parse_job(imported(text, None), "job.yml").job
        assert inline.batch_script == load_script("job.slurm", os.getcwd()).job.batch_script == text
        return
    same(text)


@pytest.mark.parametrize("name", NAMES)
def test_every_option_is_a_key_or_is_told(name: str) -> None:
    script, _ = read_script(name, SCRIPTS[name].read_text())
    found = import_script(script, name, name)
    left = {option.name for option in found.left}
    tree = found.tree
    keys = {
        "job-name": "display_name" in tree,
        "chdir": "code" in tree,
        "nodes": "resources" in tree,
        "ntasks-per-node": "distribution" in tree,
        "array": "count" in tree,
        "requeue": "requeue" in tree.get("slurm", {}),
        "no-requeue": "requeue" in tree.get("slurm", {}),
    }
    for option in script.options:
        lifted = keys.get(option.name) or option.name in tree.get("slurm", {})
        assert lifted != (option.name in left), option


def test_what_is_written(project: pathlib.Path) -> None:
    text = imported(OF_A_CLUSTER)
    assert text == (
        "# job.slurm as a job: worldsize run job.yml [-w NxM] [--set KEY=VALUE] [--dry-run]\n"
        "# The script runs as it is. Keys here win over its #SBATCH lines.\n"
        "# In the script only:\n"
        "#   line 5: --gres=gpu:a100:2\n"
        "#   line 6: --cpus-per-task=4\n"
        "#   line 8: --signal=B:USR1@120\n"
        "#   line 9: --output=%x.out\n"
        "#   line 10: --mail-type=END\n"
        "#   line 10: --exclusive\n"
        "type: command\n"
        "batch_script: job.slurm\n"
        'code: "."\n'
        "display_name: ddp\n"
        "resources:\n"
        "  instance_count: 2\n"
        "distribution:\n"
        "  type: none\n"
        "  process_count_per_instance: 2\n"
        "slurm:\n"
        '  time: "00:10:00"\n'
        "  requeue: false\n"
        '  partition: "gpu,long"\n'
        "  account: team\n"
        "  qos: high\n"
        '  constraint: "a100&ib"\n'
        '  exclude: "bad[1-2]"\n'
        "  reservation: r\n"
        '  mem: "64G"\n'
        '  dependency: "afterok:12"\n'
    )


@pytest.mark.parametrize("path", ["#!x", "~", "~/x", "azureml:x", "https://x/y", "file:x", "-", "a b/#c.slurm", "/a/b"])
def test_any_path_is_read_back_as_that_path(project: pathlib.Path, path: str) -> None:
    tree = import_script(read_script("x", "#!/bin/bash\nsrun ./a\n")[0], "x", path).tree
    if path != "/a/b":
        place = project / path
        place.parent.mkdir(parents=True, exist_ok=True)
        place.write_text("#!/bin/bash\nsrun ./here\n")
        job = parse_job("batch_script: %s\n" % repr(tree["batch_script"]).replace('"', '\\"'), "job.yml").job
        assert job.batch_script == "#!/bin/bash\nsrun ./here\n"
    else:
        assert tree["batch_script"] == path


@pytest.mark.parametrize("world", ["1", "1x1", "3", "4x8", "2x2"])
@pytest.mark.parametrize("name", ["ddp_srun.slurm", "tasks_uneven.slurm", "torchrun_single.slurm", "gpus.slurm"])
def test_another_size_is_the_same_one(project: pathlib.Path, name: str, world: str) -> None:
    text = SCRIPTS[name].read_text()
    pathlib.Path("job.slurm").write_text(text)
    script = with_world(load_script("job.slurm", os.getcwd()).job, world)
    job = with_world(parse_job(imported(text), "job.yml").job, world)
    assert behaviour(job) == behaviour(script)
    assert len(plans(job)[0].nodes) == int(world[0])


@pytest.mark.parametrize(
    "setting",
    [
        "slurm.partition=other", "slurm.time=7", "slurm.requeue=true", "slurm.gpus_per_node=1", "slurm.cpus_per_rank=3",
        "resources.instance_count=1", "distribution.process_count_per_instance=1",
        "slurm.sbatch_options.comment=x", "slurm.exclusive=false", "display_name=other", "grace=3",
    ],
)  # fmt: skip
def test_a_setting_does_the_same(project: pathlib.Path, setting: str) -> None:
    pathlib.Path("job.slurm").write_text(OF_A_CLUSTER)
    script = apply_overrides(load_script("job.slurm", os.getcwd()).job, [setting])
    job = apply_overrides(parse_job(imported(OF_A_CLUSTER), "job.yml").job, [setting])
    assert behaviour(job)[:3] == behaviour(script)[:3]
